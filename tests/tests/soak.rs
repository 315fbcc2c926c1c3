//! The soak run in short, and that its checker finds a replica that lies.

use std::process::{Command, Output};

fn soak(words: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_soak"))
        .args(["--seconds", "12", "--clients", "25"])
        .args(words)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output, said)
}

#[test]
fn nothing_is_wrong_and_nothing_leaks() {
    let (output, said) = soak(&[]);
    assert!(output.status.success() && said.trim_end().ends_with(" requests, 0 wrong, 0 leaked"), "{said}");
}

#[test]
fn a_replica_that_lies_is_found() {
    let (output, said) = soak(&["--lie"]);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("wrong: replica-0-0 said") && !said.contains(" 0 wrong"), "{said}");
}
