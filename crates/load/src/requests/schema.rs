//! Messages of gRPC as JSON (the mapping of protobuf.dev/programming-guides/json), by a schema: a
//! `.proto` file, or a set of descriptors. Cost: once per request, before the run.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::error::PlanError;

/// What a method takes.
#[derive(Debug)]
pub(super) struct Schema {
    message: MessageDescriptor,
}

impl Schema {
    /// Of a method, such as `/package.Service/Method`, as a file describes it.
    pub(super) fn read(path: &Path, method: &str) -> Result<Schema, PlanError> {
        Ok(Schema { message: input(path, method)? })
    }

    /// The bytes of a message.
    pub(super) fn encode(&self, text: &str) -> Result<Bytes, String> {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = DynamicMessage::deserialize(self.message.clone(), &mut json);
        let read = read.and_then(|read| json.end().map(|()| read));
        let name = self.message.full_name();
        let read = read.map_err(|error| format!("is no {name} as JSON: {error}"))?;
        let mut bytes = BytesMut::new();
        read.encode(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes.freeze())
    }
}

/// What a method takes.
fn input(path: &Path, method: &str) -> Result<MessageDescriptor, PlanError> {
    let refuse = |what: String| PlanError::Protocol(format!("--proto {}: {what}", path.display()));
    let pool = pool(path).map_err(refuse)?;
    let (service, name) = method.trim_start_matches('/').split_once('/').unwrap_or_default();
    let Some(service) = pool.get_service_by_name(service) else {
        let known: Vec<String> =
            pool.services().map(|service| service.full_name().to_owned()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(refuse(format!("has no service {service}; there is {known}")));
    };
    let Some(method) = service.methods().find(|method| method.name() == name) else {
        let known: Vec<String> = service.methods().map(|method| method.name().to_owned()).collect();
        let (service, known) = (service.full_name(), known.join(", "));
        return Err(refuse(format!("{service} has no method {name}; there is {known}")));
    };
    if method.is_client_streaming() || method.is_server_streaming() {
        return Err(refuse(format!("{name} is a stream; only calls with one answer can be sent")));
    }
    Ok(method.input())
}

fn pool(path: &Path) -> Result<DescriptorPool, String> {
    if path.extension().is_some_and(|extension| extension == "proto") {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let described = protox::compile([path], [folder]).map_err(|error| error.to_string())?;
        return DescriptorPool::from_file_descriptor_set(described).map_err(|e| e.to_string());
    }
    let bytes = std::fs::read(path).map_err(|error| format!("{error}; check the path"))?;
    DescriptorPool::decode(&*bytes).map_err(|error| {
        format!(
            "{error}; use a .proto file, or what protoc --include_imports --descriptor_set_out FILE \
             writes"
        )
    })
}
