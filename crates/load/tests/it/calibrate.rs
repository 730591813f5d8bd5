//! Tests that calibration reports every method, and that the methods agree with each other.

use curtail_load::calibrate::{Found, Measured, calibrate};
use curtail_load::{Parts, StampsBy};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_measures_or_gives_a_reason() {
    let found = calibrate().await.unwrap();
    assert!(found.clock_read_ns > 0.0 && found.system_clock_read_ns > 0.0);
    assert_eq!(found.methods.len(), 12);
    assert!(found.hardware.devices.contains(&"lo".to_owned()), "{:?}", found.hardware);
    assert!(found.hardware.clocks.iter().all(|clock| found.hardware.devices.contains(clock)));
    for method in &found.methods {
        let (name, stamps) = (format!("{method:?}"), method.stamps);
        let measured: &Measured = match &method.found {
            Found::Measured(measured) => measured,
            Found::Lacking(why) => {
                let alone = method.spinning && why.contains("one processor");
                let no_root = method.over == "veth" && why.contains("run this as root");
                assert!(alone || no_root, "{name}");
                continue;
            }
        };
        // On a busy machine, some requests are sent too late to be answered before the run ends.
        let late_ns = measured.schedule_lag_ns.max.unwrap();
        assert!(
            measured.echoes == 1_200 || (late_ns > 10_000_000 && measured.echoes > 0),
            "{name}"
        );
        let Some((p50, parts)) = measured.latency_ns.p50.zip(measured.median_parts_ns) else {
            assert!(measured.echoes < 1_200, "{name}");
            continue;
        };
        assert_eq!(measured.stamped.is_some(), stamps != StampsBy::User);
        if let Some(stamped) = &measured.stamped {
            assert!(stamped.sent_coverage > 0.9 && stamped.received_coverage > 0.9, "{stamped:?}");
            let Parts { schedule_lag, client_send, wire_to_wire, client_wake_up } = parts;
            let all = client_send + wire_to_wire + client_wake_up;
            assert!(all.abs_diff(p50) <= 2 && schedule_lag == 0, "{parts:?} of {p50}");
            // With the bypass, there is no network stack between the wire and this program.
            assert_eq!(stamped.past_stack.is_some(), stamps == StampsBy::Xdp);
            assert_eq!(parts.client_wake_up == 0, stamps == StampsBy::Xdp, "{parts:?}");
        }
    }
    let text = serde_json::to_value(&found).unwrap();
    assert_eq!(text["methods"][2]["stamps"], "kernel");
    assert!(text["methods"][2]["measured"]["median_parts_ns"]["wire_to_wire"].is_u64(), "{text}");
}
