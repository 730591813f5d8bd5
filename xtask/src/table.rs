//! Rows in columns, as people read them.

use serde_json::Value;

/// Rows of cells, the first of which is the head.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Documents, a row each, with the values at some paths; the last parts of a path are the head.
pub(crate) fn of_values(documents: &[Value], paths: &[&str]) -> String {
    let head = paths.iter().map(|path| path.trim_start_matches("overhead/").replace('/', " "));
    let mut rows = vec![head.collect()];
    rows.extend(documents.iter().map(|document| {
        paths.iter().map(|path| shown(document.pointer(&format!("/{path}")))).collect()
    }));
    aligned(&rows)
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "—".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if number.is_f64() => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let documents = [
            serde_json::json!({"of": "psq", "p": {"ms": 1.25}, "n": 7}),
            serde_json::json!({"of": "laedge", "p": {"ms": null}}),
        ];
        let text = of_values(&documents, &["of", "p/ms", "n"]);
        assert_eq!(text, "of      p ms  n\npsq     1.25  7\nlaedge  —     —\n");
    }
}
