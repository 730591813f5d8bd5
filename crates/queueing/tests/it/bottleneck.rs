//! Checks the bottlenecks of small systems against values that were calculated manually.

use curtail_queueing::bottleneck::{BottleneckError, Component, bottleneck};

use crate::assert_near;

fn component(name: &str, visits: f64, mean_service: f64, servers: u32) -> Component {
    Component { name: name.to_owned(), visits, mean_service, servers }
}

#[test]
fn the_highest_demand_per_server_is_the_bottleneck() {
    // A processor and two disks have demands of 5, 4 and 3 s, so the maximum is 0.2 requests per
    // second.
    let system = [
        component("disk", 80.0, 0.05, 1),
        component("processor", 121.0, 5.0 / 121.0, 1),
        component("other disk", 40.0, 0.075, 1),
    ];
    let found = bottleneck(&system).expect("a bottleneck");
    assert_near(found.components[0].demand, 5.0, 1e-12, "demand");
    assert_near(found.max_throughput, 0.2, 1e-12, "throughput");
    let names: Vec<&str> =
        found.components.iter().map(|demand| demand.component.name.as_str()).collect();
    assert_eq!(names, ["processor", "disk", "other disk"]);
    let busy: Vec<f64> = found.components.iter().map(|demand| demand.utilization(0.1)).collect();
    for (busy, expected) in busy.into_iter().zip([0.5, 0.4, 0.3]) {
        assert_near(busy, expected, 1e-12, "utilization");
    }
}

#[test]
fn servers_share_the_demand() {
    let system = [component("one", 1.0, 3.0, 1), component("four", 1.0, 8.0, 4)];
    let found = bottleneck(&system).expect("a bottleneck");
    assert_eq!(found.components[0].component.name, "one");
    assert_near(found.max_throughput, 1.0 / 3.0, 1e-12, "throughput");
    assert_near(found.components[1].max_throughput, 0.5, 1e-12, "of the four");
}

#[test]
fn components_without_demand_never_saturate() {
    let system = [component("idle", 0.0, 3.0, 1), component("busy", 2.0, 1.0, 1)];
    let found = bottleneck(&system).expect("a bottleneck");
    assert_eq!(found.max_throughput, 0.5);
    assert_eq!(found.components[1].utilization(0.5), 0.0);
    assert_eq!(bottleneck(&system[..1]), Err(BottleneckError::NoDemand));
}

#[test]
fn errors_name_the_component_and_the_value() {
    assert_eq!(bottleneck(&[]), Err(BottleneckError::NoComponents));
    for (bad, value) in [
        (component("cache", -1.0, 1.0, 1), "visits -1"),
        (component("cache", 1.0, f64::NAN, 1), "mean service NaN"),
        (component("cache", f64::INFINITY, 1.0, 1), "visits inf"),
        (component("cache", 1.0, 1.0, 0), "servers 0"),
    ] {
        let error =
            bottleneck(&[component("fine", 1.0, 1.0, 1), bad]).expect_err(value).to_string();
        assert!(error.contains("cache has") && error.contains(value), "{error}");
    }
}
