//! Formats CSV lines.

use std::borrow::Cow;

use crate::{Row, Schema, Value};

pub(crate) fn names(schema: &Schema) -> String {
    schema.iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(",") + "\n"
}

pub(crate) fn lines(rows: &[Row]) -> String {
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n").collect()
}

fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Unknown => "".into(),
        Value::Bool(value) => value.to_string().into(),
        Value::Whole(value) => value.to_string().into(),
        Value::Number(value) => value.to_string().into(),
        Value::Text(text) => quoted(text),
    }
}

fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        return Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")));
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use crate::Writer;

    #[test]
    fn values_are_quoted_if_needed() {
        let (schema, rows) = crate::sample();
        let mut csv = Writer::csv(Vec::new(), &schema).expect("writing to memory succeeds");
        csv.write(&rows).expect("writing to memory succeeds");
        let text =
            String::from_utf8(csv.finish().expect("writing to memory succeeds")).expect("text");
        let rows = "on,n,x,t\ntrue,-1,0.1,\"a,\"\"b\"\"\"\n,,,\n\
                    false,9223372036854775807,0.000000001,\"Æ\n\"\n";
        assert_eq!(text, rows);
    }
}
