//! gRPC messages as JSON (the mapping of protobuf.dev/programming-guides/json), according to a
//! schema: a `.proto` file or a descriptor set. Cost: each request is encoded once, before the run.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use protox::Compiler;
use protox::file::{File as Source, FileResolver, GoogleFileResolver};

use crate::plan::error::PlanError;

/// Maximum size of a descriptor set. Large systems have descriptor sets of several megabytes.
const DESCRIPTORS_BYTES_MAX: u64 = 64 << 20;

const SOURCE_BYTES_MAX: u64 = 16 << 20;
/// Maximum nesting depth. `protoc` allows 32 levels of nested messages.
const DEPTH_MAX: usize = 100;

#[derive(Debug)]
pub(super) struct Schema {
    message: MessageDescriptor,
}

impl Schema {
    /// Reads the schema of a method, such as `/package.Service/Method`.
    pub(super) fn read(path: &Path, method: &str) -> Result<Schema, PlanError> {
        Ok(Schema { message: input(path, method)? })
    }

    pub(super) fn encode(&self, text: &str) -> Result<Bytes, String> {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = DynamicMessage::deserialize(self.message.clone(), &mut json);
        let read = read.and_then(|read| json.end().map(|()| read));
        let name = self.message.full_name();
        let read = read.map_err(|error| format!("is not a {name} as JSON: {error}"))?;
        let mut bytes = BytesMut::new();
        read.encode(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes.freeze())
    }
}

fn input(path: &Path, method: &str) -> Result<MessageDescriptor, PlanError> {
    let refuse =
        |message: String| PlanError::Value(format!("--proto {}: {message}", path.display()));
    let pool = caught(|| pool(path)).map_err(refuse)?;
    let (service, name) = method.trim_start_matches('/').split_once('/').unwrap_or_default();
    let Some(service) = pool.get_service_by_name(service) else {
        let known: Vec<String> =
            pool.services().map(|service| service.full_name().to_owned()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(refuse(format!("has no service {service}; it has {known}")));
    };
    let Some(method) = service.methods().find(|method| method.name() == name) else {
        let known: Vec<String> = service.methods().map(|method| method.name().to_owned()).collect();
        let (service, known) = (service.full_name(), known.join(", "));
        return Err(refuse(format!("{service} has no method {name}; it has {known}")));
    };
    if method.is_client_streaming() || method.is_server_streaming() {
        return Err(refuse(format!(
            "{name} is a stream; only calls with one response can be sent"
        )));
    }
    Ok(method.input())
}

/// Resolves the files in a directory, and the files that are included with the compiler. The
/// compiler recurses for nested messages, so the depth is limited.
struct Sources {
    folder: PathBuf,
    known: GoogleFileResolver,
}

impl Sources {
    fn below(folder: &Path) -> Sources {
        Sources { folder: folder.to_owned(), known: GoogleFileResolver::new() }
    }
}

impl FileResolver for Sources {
    fn resolve_path(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.folder).unwrap_or(path);
        name.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<Source, protox::Error> {
        let file = File::open(self.folder.join(name)).map(|file| file.take(SOURCE_BYTES_MAX + 1));
        let mut text = String::new();
        match file.and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) if text.len() as u64 > SOURCE_BYTES_MAX => Err(protox::Error::new(format!(
                "{name}: more than {SOURCE_BYTES_MAX} bytes; use a set of descriptors"
            ))),
            Ok(_) if depth(&text) > DEPTH_MAX => Err(protox::Error::new(format!(
                "{name}: braces and brackets are nested more than {DEPTH_MAX} deep; nest less"
            ))),
            Ok(_) => Source::from_source(name, &text),
            Err(error) if error.kind() == ErrorKind::NotFound => self.known.open_file(name),
            Err(error) => Err(protox::Error::new(format!("{name}: {error}"))),
        }
    }
}

/// Returns an upper bound on the nesting depth, because it also counts braces in comments and
/// strings.
fn depth(text: &str) -> usize {
    let (mut deep, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' | b'<' | b'(' => deep += 1,
            b'}' | b']' | b'>' | b')' => deep = deep.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(deep);
    }
    deepest
}

fn pool(path: &Path) -> Result<DescriptorPool, String> {
    if path.extension().is_some_and(|extension| extension == "proto") {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut compiler = Compiler::with_file_resolver(Sources::below(folder));
        compiler.include_imports(true);
        compiler.open_file(path).map_err(|error| error.to_string())?;
        return DescriptorPool::from_file_descriptor_set(compiler.file_descriptor_set())
            .map_err(|error| error.to_string());
    }
    let file = File::open(path).map_err(|error| format!("{error}; check the path"))?;
    let mut bytes = Vec::new();
    file.take(DESCRIPTORS_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{error}; check the path"))?;
    if bytes.len() as u64 > DESCRIPTORS_BYTES_MAX {
        return Err(format!("more than {DESCRIPTORS_BYTES_MAX} bytes; describe fewer messages"));
    }
    described(&bytes)
}

/// Turns a panic into an error. The schema libraries panic on some invalid input, such as the
/// number `089`, or an error in a file outside the descriptor set. The panic message is also
/// printed.
fn caught<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err("it is invalid, and its parser gives no reason; check it with protoc".to_owned())
    })
}

fn described(bytes: &[u8]) -> Result<DescriptorPool, String> {
    DescriptorPool::decode(bytes).map_err(|error| {
        format!(
            "{error}; use a .proto file, or the output of protoc --include_imports \
             --descriptor_set_out FILE"
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "syntax = \"proto3\";\npackage a;\nmessage M { int32 id = 1; M m = 2; map<string, bytes> b = 3; }\n\
        service S { rpc Get (M) returns (M); rpc Watch (M) returns (stream M); }\n";

    /// Runs fewer cases than other tests, because each case compiles files and therefore takes a
    /// hundred times as long.
    fn few() -> ProptestConfig {
        let cases = (ProptestConfig::default().cases / 100).max(16);
        ProptestConfig { cases, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(few())]

        #[test]
        fn any_proto_file_is_parsed_or_rejected(
            at in 0..GOOD.len(), cut in 0..GOOD.len(), with in "[ -~]{0,6}",
            method in prop::sample::select(vec!["/a.S/Get", "/a.S/Watch", "/a.S/No", "/b/", "/", ""]),
        ) {
            let text = format!("{}{with}{}", &GOOD[..at], &GOOD[at.max(cut)..]);
            let (_folder, path) = written(text, "a.proto");
            match Schema::read(&path, method) {
                Ok(schema) => {
                    // The mutation may have made a streaming method unary.
                    prop_assert!(method.starts_with("/a.S/"), "{}", method);
                    let _ = schema.encode(&with);
                    let _ = schema.encode("{\"id\": 1, \"m\": {}}");
                }
                Err(why) => prop_assert!(why.to_string().contains("--proto"), "{}", why),
            }
        }
    }

    fn written(bytes: impl AsRef<[u8]>, name: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    /// Returns `GOOD` as a descriptor set.
    fn good_set() -> Vec<u8> {
        let (_folder, path) = written(GOOD, "a.proto");
        pool(&path).unwrap().encode_to_vec()
    }

    #[test]
    fn a_panic_in_the_schema_reader_is_an_error() {
        for id in ["089", "09", "018", "0x", "1e", "00.8f", "99999999999999999999"] {
            let (_folder, path) =
                written(GOOD.replace("id = 1;", &format!("id = {id};")), "a.proto");
            let why = Schema::read(&path, "/a.S/Get").unwrap_err().to_string();
            assert!(why.contains("--proto"), "{id}: {why}");
        }
        let mut bytes = good_set();
        // This input was found by fuzzing: one byte is changed, and the end is cut off.
        let at = 186 % bytes.len();
        bytes[at] = 0;
        bytes.truncate(bytes.len() - 192 % bytes.len());
        let (_folder, set) = written(bytes, "set");
        let why = Schema::read(&set, "/a.S/Get").unwrap_err().to_string();
        assert!(why.contains("protoc"), "{why}");
    }

    #[test]
    fn nesting_depth_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.proto");
        let nested =
            |deep: usize| format!("{GOOD}{}{}", "message M {".repeat(deep), "}".repeat(deep));
        std::fs::write(&path, nested(5_000)).unwrap();
        let why = Schema::read(&path, "/a.S/Get").unwrap_err().to_string();
        assert!(
            why.contains("a.proto: braces and brackets are nested more than 100 deep"),
            "{why}"
        );
        // The same check applies to an imported file.
        let other = folder.path().join("b.proto");
        std::fs::write(&other, "syntax = \"proto3\"; import \"a.proto\";").unwrap();
        let why = Schema::read(&other, "/a.S/Get").unwrap_err().to_string();
        assert!(why.contains("nest less"), "{why}");
        std::fs::write(&path, nested(0)).unwrap();
        assert!(Schema::read(&other, "/a.S/Get").is_ok());
    }

    proptest! {
        #[test]
        fn any_descriptor_set_is_parsed_or_rejected(at in 0..400_usize, byte in any::<u8>(), cut in 0..400_usize) {
            static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
            let whole = WHOLE.get_or_init(good_set);
            let mut bytes = whole.clone();
            let (at, cut) = (at % bytes.len(), cut % bytes.len());
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            if let Err(why) = caught(|| described(&bytes)) {
                prop_assert!(why.contains("protoc"), "{}", why);
            }
        }

        #[test]
        fn any_message_is_encoded_or_rejected(json in "[{}\\[\\]\":,a-z0-9.\\\\ -]{0,20}") {
            static SCHEMA: std::sync::OnceLock<Schema> = std::sync::OnceLock::new();
            let schema = SCHEMA.get_or_init(|| {
                let (_folder, path) = written(GOOD, "a.proto");
                Schema::read(&path, "/a.S/Get").unwrap()
            });
            for text in [json.clone(), format!("{{\"id\": {json}}}"), format!("{{\"m\": {{{json}}}}}")] {
                if let Err(why) = schema.encode(&text) {
                    prop_assert!(why.contains("is not a a.M as JSON"), "{}", why);
                }
            }
        }
    }
}
