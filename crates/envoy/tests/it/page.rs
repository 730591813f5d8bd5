//! The commands of the page work.

use std::path::Path;
use std::process::Command;

use crate::envoy;

const PAGE: &str = include_str!("../../../../docs/envoy.md");

/// Lines that install what is here already.
const INSTALLS: [&str; 2] = ["pip install ", "cargo build "];

#[test]
fn the_commands_of_the_page_work() {
    let Some(program) = envoy::program() else { return };
    let Some(curtail) = std::env::var_os("CURTAIL") else {
        return println!("SKIPPED: set CURTAIL to a program with `curtail envoy`");
    };
    let block = PAGE.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let lines: Vec<&str> = block.lines().collect();
    assert_eq!(lines.len(), 10);
    let runs = lines.iter().filter(|line| !INSTALLS.iter().any(|start| line.starts_with(start)));
    let script: Vec<&str> = runs.copied().collect();
    assert_eq!(script.len(), lines.len() - INSTALLS.len(), "the page installs");
    // A short run suffices to see that it works.
    let script = script.join("\n").replace("--duration 20s", "--duration 1s --json >> results");
    let script = format!("trap 'kill $(jobs -p) 2> /dev/null' EXIT\n{script}");
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&program, folder.path().join("envoy")).unwrap();
    std::os::unix::fs::symlink(Path::new(&curtail), folder.path().join("curtail")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script).current_dir(folder.path()).env("PATH", path);
    let output = bash.env(envoy::SEARCH_PATH, envoy::libraries()).output().unwrap();
    let printed = std::fs::read_to_string(folder.path().join("results")).unwrap();
    let results: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&printed)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap_or_else(|error| panic!("{error}: {printed}"));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(results.len(), 2, "{stderr}");
    for result in results {
        assert!(result["requests"].as_u64() > Some(100), "{result}: {stderr}");
        let errors = result["errors"].as_object().unwrap();
        assert!(errors.values().all(|count| count == 0), "{result}: {stderr}");
    }
}
