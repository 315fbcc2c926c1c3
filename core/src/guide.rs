//! The book: how it works, how to run it, and what to do when it does not.

#[doc = include_str!("../docs/how-it-works.md")]
pub mod how_it_works {}

#[doc = include_str!("../docs/deploy-router.md")]
pub mod deploy_router {}

#[doc = include_str!("../docs/deploy-legacy.md")]
pub mod deploy_legacy {}

#[doc = include_str!("../docs/high-availability.md")]
pub mod high_availability {}

#[doc = include_str!("../docs/security.md")]
pub mod security {}

#[doc = include_str!("../docs/troubleshooting.md")]
pub mod troubleshooting {}

#[doc = include_str!("../docs/replaying-an-incident.md")]
pub mod replaying_an_incident {}

#[doc = include_str!("../docs/compatibility.md")]
pub mod compatibility {}

#[doc = include_str!("../docs/configuration.md")]
pub mod configuration {}

#[cfg(test)]
mod tests {
    use crate::exchange::Code;

    const TROUBLESHOOTING: &str = include_str!("../docs/troubleshooting.md");

    #[test]
    fn every_code_that_a_client_can_meet_has_its_cause_and_cure() {
        for code in Code::ALL {
            let row = format!("\n| `{}` | {} | ", code.label(), code.status().as_u16());
            assert!(TROUBLESHOOTING.contains(&row), "core/docs/troubleshooting.md lacks the row{row}");
        }
    }
}
