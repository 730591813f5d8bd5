use proptest::prelude::*;

use super::*;
use crate::traces::Kind;

const OTLP: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"n","value":{"intValue":"3"}},
 {"key":"service.name","value":{"stringValue":"cart"}}]},"scopeSpans":[{"scope":{"name":"x"},"spans":[
 {"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","parentSpanId":"EEE19B7EC3C1B173",
  "name":"add","kind":2,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":1544712661000000000,
  "attributes":[{"key":"a","value":{"arrayValue":{"values":[{"stringValue":"b"}]}}}]},
 {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b173","parentSpanId":null}]}]}]}"#;

const JAEGER: &str = r#"{"data":[{"traceID":"7f","spans":[
 {"traceID":"7f","spanID":"a","operationName":"get","references":[],"startTime":1000,"duration":50,"processID":"p1",
  "tags":[{"key":"k","type":"bool","value":true}],"logs":[]},
 {"traceID":"7f","spanID":"b","operationName":"find","startTime":1010,"duration":20,"processID":"p2","references":[
  {"refType":"CHILD_OF","traceID":"99","spanID":"1"},{"refType":"FOLLOWS_FROM","traceID":"7f","spanID":"c"},
  {"refType":"CHILD_OF","traceID":"7f","spanID":"a"}]}],
 "processes":{"p1":{"serviceName":"front","tags":[]},"p2":{"serviceName":"store"}}}],"total":0,"errors":null}"#;

fn span(trace: u128, id: u64, parent: u64, name: (&str, &str), times: (u64, u64)) -> Span {
    let (service, operation) = (name.0.to_owned(), name.1.to_owned());
    Span {
        trace,
        id,
        parent,
        service,
        operation,
        start_ns: times.0,
        end_ns: times.1,
        ..Span::default()
    }
}

/// Returns the content of `OTLP` as protobuf that is written field by field, including fields that
/// the parser skips.
fn protobuf_of_otlp() -> Vec<u8> {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 0x4000);
        let length = [bytes.len() as u8 | 0x80, (bytes.len() >> 7) as u8];
        [&[number << 3 | 2][..], &length, bytes].concat()
    }
    fn fixed(number: u8, value: u64) -> Vec<u8> {
        [&[number << 3 | 1][..], &value.to_le_bytes()].concat()
    }
    let trace = field(1, &0x5B8E_FFF7_9803_8103_D269_B633_813F_C60C_u128.to_be_bytes());
    let (parent, child) =
        (0xEEE1_9B7E_C3C1_B173_u64.to_be_bytes(), 0xEEE1_9B7E_C3C1_B174_u64.to_be_bytes());
    let times = [fixed(7, 1_544_712_660_000_000_000), fixed(8, 1_544_712_661_000_000_000)].concat();
    let first = [trace.clone(), field(2, &child), field(3, b"state"), field(4, &parent)].concat();
    let first =
        [first, field(5, b"add"), vec![6 << 3, 2], times, field(9, &field(1, b"a"))].concat();
    let second = [trace, field(2, &parent)].concat();
    let spans = [field(1, &field(1, b"x")), field(2, &first), field(2, &second)].concat();
    let number = [field(1, b"n"), field(2, &[3 << 3, 3])].concat();
    let service = [field(1, b"service.name"), field(2, &field(1, b"cart"))].concat();
    let resource = [field(1, &number), field(1, &service)].concat();
    field(1, &[field(1, &resource), field(2, &spans)].concat())
}

fn expected() -> Vec<Span> {
    let trace = 0x5B8E_FFF7_9803_8103_D269_B633_813F_C60C;
    let (parent, child) = (0xEEE1_9B7E_C3C1_B173, 0xEEE1_9B7E_C3C1_B174);
    let times = (1_544_712_660_000_000_000, 1_544_712_661_000_000_000);
    vec![
        Span { kind: Kind::Server, ..span(trace, child, parent, ("cart", "add"), times) },
        span(trace, parent, 0, ("cart", ""), (0, 0)),
    ]
}

#[test]
fn otlp_is_the_same_in_json_and_in_protobuf() {
    assert_eq!(parse(OTLP.as_bytes()).expect("json"), expected());
    assert_eq!(parse(&protobuf_of_otlp()).expect("protobuf"), expected());
}

const ZIPKIN: &str = r#"[{"traceId":"5b8efff798038103d269b633813fc60c","id":"a","parentId":null,"name":"get","kind":"CLIENT",
 "timestamp":1000,"duration":50,"localEndpoint":{"serviceName":"front","ipv4":"10.0.0.1"},"remoteEndpoint":null,
 "tags":{"http.status_code":"200","x":"y"}},
 {"traceId":"5b8efff798038103d269b633813fc60c","id":"a","name":"get","kind":"SERVER","shared":true,"timestamp":1010,
 "duration":20,"localEndpoint":{"serviceName":"store"},"tags":null,"annotations":[]},
 {"traceId":"5b8efff798038103d269b633813fc60c","id":"b","name":"no time"}]"#;

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn zipkin_has_spans_by_themselves_and_both_halves_have_one_id() {
    let trace = 0x5B8E_FFF7_9803_8103_D269_B633_813F_C60C;
    let client = span(trace, 0xa, 0, ("front", "get"), (1_000_000, 1_050_000));
    let attributes = owned(&[("http.status_code", "200"), ("ip", "10.0.0.1")]);
    let client = Span { kind: Kind::Client, attributes, ..client };
    let server = span(trace, 0xa, 0, ("store", "get"), (1_010_000, 1_030_000));
    let server = Span { kind: Kind::Server, ..server };
    let none = span(trace, 0xb, 0, ("", "no time"), (0, u64::MAX));
    let expected = [client, server, none];
    assert_eq!(parse(ZIPKIN.as_bytes()).expect("zipkin"), expected);
    // Zipkin's web interface returns a list of traces, whereas its storage contains one span per
    // line.
    assert_eq!(parse(format!("[{ZIPKIN},[]]").as_bytes()).expect("zipkin").len(), 3);
    let lines = ZIPKIN.replace('\n', "").replace("}, {\"t", "}\n{\"t");
    assert_eq!(parse(lines.trim_matches(['[', ']']).as_bytes()).expect("lines"), expected);
}

#[test]
fn variants_of_otlp_are_accepted() {
    let same = |text: &str| assert_eq!(parse(text.as_bytes()).expect(text), expected(), "{text}");
    same(&format!("\u{feff}{OTLP}"));
    same(&format!("[{OTLP}]"));
    same(&OTLP.replace("resourceSpans", "batches"));
    same(&format!(r#"{{"trace":{OTLP},"metrics":{{}}}}"#));
    same(&OTLP.replace("scopeSpans", "instrumentationLibrarySpans"));
    same(&OTLP.replace("\"scopeSpans\"", "\"instrumentationLibrarySpans\":null,\"scopeSpans\""));
    same(&OTLP.replace(r#"}]}]}]}"#, r#"}]}],"instrumentationLibrarySpans":[{"spans":[]}]}]}"#));
    same(
        &OTLP.replace("\"kind\":2", "\"kind\":\"SPAN_KIND_SERVER\",\"links\":null,\"status\":null"),
    );
    let snake = [
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("traceId", "trace_id"),
        ("spanId", "span_id"),
        ("parentSpanId", "parent_span_id"),
        ("startTimeUnixNano", "start_time_unix_nano"),
        ("endTimeUnixNano", "end_time_unix_nano"),
        ("stringValue", "string_value"),
        ("intValue", "int_value"),
    ];
    same(&snake.iter().fold(OTLP.to_owned(), |text, (camel, snake)| text.replace(camel, snake)));
    let base64 = [
        ("5B8EFFF798038103D269B633813FC60C", "W47/95gDgQPSabYzgT/GDA=="),
        ("5b8efff798038103d269b633813fc60c", "W47_95gDgQPSabYzgT_GDA"),
        ("EEE19B7EC3C1B174", "7uGbfsPBsXQ="),
        ("EEE19B7EC3C1B173", "7uGbfsPBsXM"),
        ("eee19b7ec3c1b173", "7uGbfsPBsXM="),
    ];
    same(&base64.iter().fold(OTLP.to_owned(), |text, (hex, base64)| text.replace(hex, base64)));
    for nothing in ["{}", " { } ", "[]", r#"{"resourceSpans":[]}"#, "{}\n{}"] {
        assert_eq!(parse(nothing.as_bytes()).expect(nothing), []);
    }
    for empty in [r#"{"resourceSpans":null}"#, r#"{"batches":null}"#] {
        assert_eq!(parse(empty.as_bytes()).expect("nothing"), [], "{empty}");
    }
    let nulls = r#"{"resourceSpans":[{"resource":null,"scopeSpans":null},{"resource":{"attributes":null},"scopeSpans":[
        {"spans":null},{"spans":[{"traceId":null,"spanId":"","name":null,"startTimeUnixNano":null,"attributes":null,
        "kind":null}]}]}]}"#;
    assert_eq!(parse(nulls.as_bytes()).expect("nulls"), [Span::default()]);
}

#[test]
fn variants_of_jaeger_are_accepted() {
    let all = parse(JAEGER.as_bytes()).expect("jaeger");
    let begin = JAEGER.find("[{\"traceID").expect("traces");
    let end = JAEGER.rfind(",\"total").expect("an end");
    let list = &JAEGER[begin..end];
    assert_eq!(parse(list.as_bytes()).expect("a list of traces"), all);
    assert_eq!(parse(&list.as_bytes()[1..list.len() - 1]).expect("a trace"), all);
    let nulls = JAEGER
        .replace("\"references\":[]", "\"references\":null")
        .replace("\"tags\":[]", "\"tags\":null");
    assert_eq!(parse(nulls.as_bytes()).expect("nulls"), all);
    let without = JAEGER.replacen("\"processes\":{", "\"processes\":null,\"p\":{", 1);
    assert_eq!(parse(without.as_bytes()).expect("no processes")[0].service, "");
}

#[test]
fn relevant_attributes_are_kept() {
    let attributes = r#""attributes":[{"key":"http.status_code","value":{"intValue":"503"}},{"key":"Retry","value":
        {"boolValue":true}},{"key":"queue_ms","value":{"doubleValue":1.5}},{"key":"queue","value":{"stringValue":"a"}},
        {"key":"url","value":{"stringValue":"/"}},{"key":"retry","value":null}],"status":{"code":"STATUS_CODE_ERROR"},"name""#;
    let text = OTLP.replacen("\"name\":\"add\"", &format!("{attributes}:\"add\""), 1);
    let text = text.replacen("\"n\",", "\"service.instance.id\",", 1);
    let text = text.replacen("\"attributes\":[{\"key\":\"a\"", "\"other\":[{\"key\":\"a\"", 1);
    let spans = parse(text.as_bytes()).expect("OTLP");
    let of_resource = ("service.instance.id", "3");
    let first = [("http.status_code", "503"), ("Retry", "true"), ("queue_ms", "1.5"), of_resource];
    let first = [&first[..], &[("otel.status_code", "ERROR")]].concat();
    assert_eq!(
        [&spans[0].attributes, &spans[1].attributes],
        [&owned(&first), &owned(&[of_resource])]
    );
    let tags = r#"[{"key":"span.kind","value":"client"},{"key":"retry.count","value":2}]"#;
    let process = r#"[{"key":"hostname","value":"h7"}]"#;
    let text = JAEGER.replace(r#"[{"key":"k","type":"bool","value":true}]"#, tags);
    let text = text.replace("\"tags\":[]", &format!("\"tags\":{process}"));
    let first = &parse(text.as_bytes()).expect("jaeger")[0];
    assert_eq!(first.kind, Kind::Client);
    assert_eq!(first.attributes, owned(&[("retry.count", "2"), ("hostname", "h7")]));
}

#[test]
fn documents_may_follow_each_other() {
    let lines = format!("{}\n{}\n", OTLP.replace('\n', ""), OTLP.replace('\n', ""));
    assert_eq!(parse(lines.as_bytes()).expect("lines").len(), 4);
    let after_a_line = format!("\n{OTLP}");
    assert_eq!(parse(after_a_line.as_bytes()).expect("json"), expected());
    let twice = protobuf_of_otlp().repeat(2);
    assert_eq!(parse(&twice).expect("protobuf").len(), 4);
}

#[test]
fn jaeger_has_microseconds_and_names_services_by_process() {
    let spans = parse(JAEGER.as_bytes()).expect("jaeger");
    let first = span(0x7f, 0xa, 0, ("front", "get"), (1_000_000, 1_050_000));
    assert_eq!(spans, [first, span(0x7f, 0xb, 0xa, ("store", "find"), (1_010_000, 1_030_000))]);
}

#[test]
fn errors_contain_the_position() {
    let refused = |text: &str| parse(text.as_bytes()).expect_err(text).to_string();
    let ids = refused(&OTLP.replace("EEE19B7EC3C1B174", "7uGbfsPBsXQ!"));
    assert!(
        ids.contains("7uGbfsPBsXQ!")
            && ids.contains("32 hexadecimal digits, ")
            && ids.contains("line 3"),
        "{ids}"
    );
    let time = refused(&OTLP.replace("\"1544712660000000000\"", "\"yesterday\""));
    assert!(time.contains("yesterday") && time.contains("line 4"), "{time}");
    assert!(refused(&JAEGER.replace("1010", "-5")).contains("line 4"));
    let metrics = refused(r#"{"resourceMetrics":[]}"#);
    assert!(metrics.contains("document 1") && metrics.contains("not metrics"), "{metrics}");
    assert!(refused(r#"{"data":null,"errors":[{"code":404}]}"#).contains("document 1"));
    assert!(refused("traces").contains("neither JSON nor"));
    assert!(refused(&JAEGER[..JAEGER.len() - 1]).contains("EOF"));
}

#[test]
fn invalid_ids_become_zero() {
    let mut spans = Vec::new();
    otlp::spans(protobuf_with_trace(&[1; 17]), &mut spans);
    assert_eq!(spans[0].trace, 0);
    let jaeger =
        parse(JAEGER.replace("\"spanID\":\"a\"", "\"spanID\":\"xyz\"").as_bytes()).expect("jaeger");
    assert_eq!((jaeger[0].id, jaeger[1].parent), (0, 0));
}

fn protobuf_with_trace(id: &[u8]) -> Vec<otlp::ResourceSpans> {
    let span = [&[1 << 3 | 2, id.len() as u8][..], id].concat();
    let span = [&[2 << 3 | 2, span.len() as u8][..], &span].concat();
    let scope = [&[2 << 3 | 2, span.len() as u8][..], &span].concat();
    let request = [&[1 << 3 | 2, scope.len() as u8][..], &scope].concat();
    otlp::Request::decode(&request[..]).expect("protobuf").resource_spans
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = json(&bytes);
        let _ = protobuf(&bytes);
    }

    #[test]
    fn damaged_documents_do_not_panic(
        which in 0_usize..4,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let text = [OTLP, JAEGER, ZIPKIN].map(|text| text.as_bytes().to_vec());
        let documents = [&text[..], &[protobuf_of_otlp()]].concat();
        let mut bytes = documents[which].clone();
        edits.into_iter().for_each(|(at, byte)| { let at = at.index(bytes.len()); bytes[at] = byte; });
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(spans) = parse(&bytes) {
            let mut traces = crate::traces::Traces::default();
            spans.iter().for_each(|span| traces.add(span));
            let _ = traces.profile(None, 3);
        }
    }
}
