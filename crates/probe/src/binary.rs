//! Finds marks in ELF files: functions, static tracepoints, fields of structures.
//!
//! The cost of a probe depends on the instruction under it. The kernel emulates a few instructions.
//! For all other instructions, it executes a copy, which costs an additional trap (several
//! microseconds in a virtual machine). The code is therefore decoded before any probe is attached,
//! and the probe of a mark is placed at the first cheap instruction of its function. The input
//! files are untrusted.

use std::borrow::Cow;

use gimli::{DebuggingInformationEntry, EndianSlice, RunTimeEndian};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};

/// A parsed ELF file.
#[derive(Debug)]
pub struct Binary<'d> {
    file: object::File<'d>,
}

/// An address to which a probe can be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The offset of the address in the file, in bytes.
    pub offset: u64,
    /// Whether the kernel emulates the instruction at this address. `None` if there is no x86-64
    /// code to decode.
    pub is_emulated: Option<bool>,
}

/// The reason why a mark cannot be placed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages document the variants")]
pub enum BinaryError {
    #[error("it is not a readable ELF file: {0}")]
    Malformed(String),
    #[error("it has no symbols (it is stripped); install its debug symbols, or build it with -g")]
    Stripped,
    #[error("there is no function `{name}`{hint}")]
    NoFunction {
        name: String,
        /// A likely reason, or the names of similar functions.
        hint: String,
    },
    #[error("there is no static tracepoint `{name}`; it has {known}")]
    NoTracepoint { name: String, known: String },
    /// The program executes the tracepoint only while its semaphore counts an attached probe.
    #[error(
        "static tracepoint `{0}` is disabled by a semaphore, which curtail cannot raise; mark a \
         function"
    )]
    Guarded(String),
    #[error("the place of `{0}` is not in the debug information; build with -g, or give `offset`")]
    NoField(String),
}

impl<'d> Binary<'d> {
    /// Reads the headers.
    ///
    /// # Errors
    ///
    /// If the file is not ELF.
    pub fn parse(bytes: &'d [u8]) -> Result<Binary<'d>, BinaryError> {
        let malformed = |error: object::Error| BinaryError::Malformed(error.to_string());
        Ok(Binary { file: object::File::parse(bytes).map_err(malformed)? })
    }

    /// Returns the path of the separate debug file, relative to `/usr/lib/debug/.build-id`. `None`
    /// if the file contains no build ID.
    #[must_use]
    pub fn debug_file(&self) -> Option<String> {
        let id = self.file.build_id().ok()??;
        let (first, rest) = id.split_first()?;
        let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("{first:02x}/{rest}.debug"))
    }

    /// Returns the entry of a function. The name is looked up in `symbols`: this file, or its debug
    /// file.
    ///
    /// # Errors
    ///
    /// If the function does not exist. The error contains a likely reason.
    pub fn function(&self, symbols: &Binary<'_>, name: &str) -> Result<Site, BinaryError> {
        let mut known = Vec::new();
        for symbol in symbols.file.symbols().chain(symbols.file.dynamic_symbols()) {
            if symbol.kind() != object::SymbolKind::Text || symbol.is_undefined() {
                continue;
            }
            let Ok(mangled) = symbol.name() else { continue };
            let plain = format!("{:#}", rustc_demangle::demangle(mangled));
            if mangled == name || plain == name {
                return self
                    .site(symbol.address())
                    .ok_or_else(|| BinaryError::Malformed(format!("`{name}` is in no segment")));
            }
            known.push(plain);
        }
        if known.is_empty() {
            return Err(BinaryError::Stripped);
        }
        let hint = symbols.hint(name, &known);
        Err(BinaryError::NoFunction { name: name.to_owned(), hint })
    }

    fn hint(&self, name: &str, known: &[String]) -> String {
        if self.is_inlined(name) {
            return ": the compiler inlined it; mark one of its callers, or build it `noinline`"
                .to_owned();
        }
        let parts = [".isra", ".part", ".constprop", ".cold"];
        let off = |other: &str| {
            let cut = parts.iter().filter_map(|part| other.find(part)).min().unwrap_or(other.len());
            curtail_config::distance(name, &other[..cut])
        };
        let near = known.iter().filter_map(|other| Some((off(other)?, other.as_str())));
        let mut near: Vec<(usize, &str)> = near.collect();
        near.sort_by_key(|(off, _)| *off);
        let near: Vec<&str> = near.into_iter().map(|(_, other)| other).take(4).collect();
        match near.is_empty() {
            true => "; run `nm` for a list of all functions".to_owned(),
            false => format!("; there is {}", near.join(", ")),
        }
    }

    /// Returns all sites of a static tracepoint, `provider:name`.
    ///
    /// # Errors
    ///
    /// If the tracepoint does not exist. The error lists the tracepoints that do.
    pub fn tracepoint(&self, name: &str) -> Result<Vec<Site>, BinaryError> {
        let mut sites = Vec::new();
        let mut known = Vec::new();
        for note in self.notes() {
            let full = format!("{}:{}", note.provider, note.name);
            if full == name {
                if note.is_guarded {
                    return Err(BinaryError::Guarded(full));
                }
                sites.extend(self.site(note.address));
            }
            known.push(full);
        }
        if sites.is_empty() {
            known.sort_unstable();
            known.dedup();
            known.truncate(8);
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(BinaryError::NoTracepoint { name: name.to_owned(), known });
        }
        Ok(sites)
    }

    /// Reads the notes in `.note.stapsdt`. Each note contains three addresses, followed by the
    /// provider, the name and the arguments, each terminated by a 0 byte.
    fn notes(&self) -> Vec<Note> {
        let data = |name| self.file.section_by_name(name)?.data().ok();
        let Some(mut notes) = data(".note.stapsdt") else { return Vec::new() };
        // The address of this section reveals whether a prelinker moved the file.
        let base =
            self.file.section_by_name(".stapsdt.base").map_or(0, |section| section.address());
        let mut found = Vec::new();
        while let Some((note, rest)) = Note::read(notes, base) {
            found.extend(note);
            notes = rest;
        }
        found
    }

    /// Returns the offset of a field in its structure (`structure.field`), in bytes. The offset is
    /// read from the DWARF debug information.
    ///
    /// # Errors
    ///
    /// If debug information is missing, or does not contain the field.
    pub fn field(&self, name: &str) -> Result<u64, BinaryError> {
        let missing = || BinaryError::NoField(name.to_owned());
        let (structure, field) = name.split_once('.').ok_or_else(missing)?;
        self.search(|unit, entry| {
            if !named(unit, entry, structure) || !is_aggregate(entry.tag()) {
                return None;
            }
            let mut tree = unit.unit.entries_tree(Some(entry.offset())).ok()?;
            let mut members = tree.root().ok()?.children();
            while let Ok(Some(member)) = members.next() {
                let member = member.entry();
                if named(unit, member, field) {
                    return member.attr_value(gimli::DW_AT_data_member_location)?.udata_value();
                }
            }
            None
        })
        .ok_or_else(missing)
    }

    fn is_inlined(&self, name: &str) -> bool {
        let inlined = self.search(|unit, entry| {
            let is_function = entry.tag() == gimli::DW_TAG_subprogram && named(unit, entry, name);
            let attribute = entry.attr_value(gimli::DW_AT_inline).filter(|_| is_function);
            attribute?.udata_value()
        });
        inlined.is_some_and(|how| how > 0)
    }

    /// Returns the first `Some` that `find` returns for an entry of the debug information.
    fn search(
        &self,
        find: impl for<'a> Fn(UnitRef<'a, '_>, &Entry<'a>) -> Option<u64>,
    ) -> Option<u64> {
        let load = |id: gimli::SectionId| -> Result<Cow<'_, [u8]>, gimli::Error> {
            let section = self.file.section_by_name(id.name());
            Ok(section.and_then(|section| section.uncompressed_data().ok()).unwrap_or_default())
        };
        let sections = gimli::DwarfSections::load(load).ok()?;
        let endian = match self.file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                if let Some(found) = find(unit.unit_ref(&dwarf), entry) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn offset(&self, address: u64) -> Option<u64> {
        let inside = |segment: &object::Segment<'_, '_>| {
            (segment.address()..segment.address().saturating_add(segment.size())).contains(&address)
        };
        let segment = self.file.segments().find(inside)?;
        Some(address - segment.address() + segment.file_range().0)
    }

    /// Returns the site at an address, or at an instruction soon after it that is cheaper to probe.
    fn site(&self, address: u64) -> Option<Site> {
        let code = self.code(address).unwrap_or_default();
        let is_known = self.file.architecture() == object::Architecture::X86_64 && !code.is_empty();
        let cheap = if is_known { emulated(code) } else { None };
        let address = address.checked_add(cheap.unwrap_or(0))?;
        let is_emulated = is_known.then_some(cheap.is_some());
        Some(Site { offset: self.offset(address)?, is_emulated })
    }

    /// Returns the bytes from an address to the end of its segment.
    fn code(&self, address: u64) -> Option<&'d [u8]> {
        let segments = self.file.segments();
        let data = |segment: object::Segment<'d, '_>| {
            let at = usize::try_from(address.checked_sub(segment.address())?).ok()?;
            segment.data().ok()?.get(at..).filter(|code| !code.is_empty())
        };
        segments.filter_map(data).next()
    }
}

/// Returns the offset of the first instruction that the kernel emulates, in x86-64 code. `None`
/// unless each call executes it exactly once, with the function's arguments still in their
/// registers. The emulated instructions follow arch/x86/kernel/uprobes.c: nops, pushes of
/// registers, jumps, and calls.
pub(crate) fn emulated(code: &[u8]) -> Option<u64> {
    use iced_x86::{
        Code, Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess,
        Register,
    };
    const ARGUMENTS: [Register; 6] =
        [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
    let mut registers = InstructionInfoFactory::new();
    for instruction in Decoder::new(64, code, DecoderOptions::NONE).iter().take(16) {
        let here = instruction.ip();
        let is_plain = instruction.flow_control() == FlowControl::Next;
        let is_emulated = match instruction.flow_control() {
            _ if instruction.code() == Code::INVALID => return None,
            FlowControl::Next => match instruction.mnemonic() {
                Mnemonic::Nop => true,
                Mnemonic::Push => instruction.op0_kind() == iced_x86::OpKind::Register,
                _ => false,
            },
            // A backward jump may end a loop, and would then run more than once per call.
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                instruction.near_branch_target() > here
                    && instruction.near_branch_target() < i64::MAX as u64
            }
            FlowControl::Call => true,
            _ => false,
        };
        if is_emulated {
            return Some(here);
        }
        let writes = |used: &iced_x86::UsedRegister| {
            let is_written = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
            );
            is_written && ARGUMENTS.contains(&used.register().full_register())
        };
        if !is_plain || registers.info(&instruction).used_registers().iter().any(writes) {
            return None;
        }
    }
    None
}

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;
type UnitRef<'a, 'u> = gimli::UnitRef<'u, Slice<'a>>;

fn is_aggregate(tag: gimli::DwTag) -> bool {
    matches!(tag, gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type)
}

fn named<'a>(unit: UnitRef<'a, '_>, entry: &Entry<'a>, name: &str) -> bool {
    let text = entry.attr_value(gimli::DW_AT_name).and_then(|text| unit.attr_string(text).ok());
    text.is_some_and(|text| text.slice() == name.as_bytes())
}

/// A static tracepoint.
struct Note {
    address: u64,
    /// Whether the tracepoint has a semaphore.
    is_guarded: bool,
    provider: String,
    name: String,
}

impl Note {
    /// Splits off the first note and returns it with the remaining bytes. The note is `None` if its
    /// content is malformed.
    fn read(bytes: &[u8], base: u64) -> Option<(Option<Note>, &[u8])> {
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (owner, length) = (word(0)? as usize, word(4)? as usize);
        let padded = |length: usize| length.div_ceil(4) * 4;
        let content = bytes.get(12_usize.checked_add(padded(owner))?..)?;
        let rest = content.get(padded(length)..).unwrap_or_default();
        Some((content.get(..length).and_then(|content| Note::of(content, base)), rest))
    }

    fn of(content: &[u8], base: u64) -> Option<Note> {
        let number =
            |at: usize| Some(u64::from_ne_bytes(content.get(at..at + 8)?.try_into().ok()?));
        let (address, linked, semaphore) = (number(0)?, number(8)?, number(16)?);
        let mut texts = content.get(24..)?.split(|&byte| byte == 0);
        let mut text = || Some(String::from_utf8_lossy(texts.next()?).into_owned());
        let moved = if base == 0 { 0 } else { base.wrapping_sub(linked) };
        Some(Note {
            address: address.wrapping_add(moved),
            is_guarded: semaphore > 0,
            provider: text()?,
            name: text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An ELF file with symbols, sections and notes.
    static ELF: &[u8] = include_bytes!("../bpf/stages.bpf.o");

    fn look_everywhere(bytes: &[u8]) {
        let Ok(binary) = Binary::parse(bytes) else { return };
        let _ = (
            binary.debug_file(),
            binary.function(&binary, "end"),
            binary.function(&binary, "none"),
        );
        let _ =
            (binary.tracepoint("a:b"), binary.field("connection.read"), binary.is_inlined("find"));
    }

    fn note(addresses: [u64; 3], texts: &str) -> Vec<u8> {
        let content: Vec<u8> =
            addresses.iter().flat_map(|word| word.to_ne_bytes()).chain(texts.bytes()).collect();
        let head = [8, content.len() as u32, 3];
        let head = head.iter().flat_map(|word| word.to_ne_bytes());
        let padding = vec![0; content.len().div_ceil(4) * 4 - content.len()];
        head.chain(*b"stapsdt\0").chain(content).chain(padding).collect()
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            look_everywhere(&bytes);
            let _ = (emulated(&bytes), Note::read(&bytes, 7), Note::of(&bytes, 0));
        }

        #[test]
        fn damaged_files_are_read_or_refused(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
            // Only damage to the file header, or to the section headers at the end of the file, can
            // change the result.
            in_headers in any::<bool>(),
            cut in 0_usize..3_000,
        ) {
            let mut bytes = ELF.to_vec();
            for (at, byte) in damage {
                let at = if in_headers { at.index(64) } else { bytes.len() - 1 - at.index(4_000) };
                bytes[at] = byte;
            }
            bytes.truncate(ELF.len() - cut.saturating_sub(2_000));
            look_everywhere(&bytes);
        }
    }

    #[test]
    fn notes_of_static_tracepoints_are_read_in_turn() {
        let mut bytes = note([0x1000, 0x2000, 0], "server\0parsed\0-4@%edi\0");
        bytes.extend(note([0x1100, 0x2000, 0x3000], "server\0sent\0\0"));
        let (first, rest) = Note::read(&bytes, 0x2010).expect("a note");
        let (second, rest) = Note::read(rest, 0x2010).expect("a note");
        let read = |note: Option<Note>| {
            note.map(|note| (note.address, note.is_guarded, note.provider, note.name))
        };
        // The file was moved by 16 bytes after it was linked.
        assert_eq!(read(first), Some((0x1010, false, "server".to_owned(), "parsed".to_owned())));
        assert_eq!(read(second), Some((0x1110, true, "server".to_owned(), "sent".to_owned())));
        assert!(rest.is_empty() && Note::read(rest, 0).is_none());
    }

    #[test]
    fn marks_move_to_the_first_instruction_that_is_cheap_and_passed_once() {
        // push rbp
        assert_eq!(emulated(&[0x55, 0x48, 0x89, 0xe5]), Some(0));
        // endbr64; push rbp
        assert_eq!(emulated(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), Some(4));
        // sub rsp, 8; mov rax, rdi; call
        assert_eq!(emulated(&[0x48, 0x83, 0xec, 8, 0x48, 0x89, 0xf8, 0xe8, 1, 0, 0, 0]), Some(7));
        // inc eax; jne back to it
        assert_eq!(emulated(&[0xff, 0xc0, 0x75, 0xfc]), None);
        // mov rdi, rax overwrites an argument; push rbp
        assert_eq!(emulated(&[0x48, 0x89, 0xc7, 0x55]), None);
        // xor eax, eax; ret; push rbp
        assert_eq!(emulated(&[0x31, 0xc0, 0xc3, 0x55]), None);
        assert_eq!(emulated(&[]), None);
    }

    #[test]
    fn functions_are_found_by_either_name_and_others_are_suggested() {
        let program = std::fs::read("/proc/self/exe").expect("this program");
        let binary = Binary::parse(&program).expect("an ELF file");
        let site =
            binary.function(&binary, "curtail_probe::binary::emulated").expect("it is in here");
        assert!(site.offset > 0);
        let missing = binary
            .function(&binary, "curtail_probe::binary::emulate")
            .expect_err("it is not")
            .to_string();
        assert!(missing.contains("there is curtail_probe::binary::emulated"), "{missing}");
        let object = Binary::parse(ELF).expect("an ELF file");
        assert!(
            object
                .field("connection.read")
                .is_err_and(|error| error.to_string().contains("build with -g"))
        );
        assert_eq!(
            Binary::parse(b"#!/bin/sh")
                .map(drop)
                .map_err(|error| error.to_string().contains("not a readable ELF")),
            Err(true)
        );
    }
}
