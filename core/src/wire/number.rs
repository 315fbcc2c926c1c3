//! Ratios and weights, lenient where Python's encoder is (worker-protocol 9).

use serde_json::value::RawValue;

use super::circuit::Ratio;
use super::json::{Fault, Object, kind};
use super::report::{At, Reports};

/// A ratio or weight. Absent is `absent`; an explicit `null` is 0 (so NaN arrives) and a number out of range is 0, both
/// reported; a negative one is kept, counts as 0, and is reported too. Anything else is a fault.
pub(super) fn ratio<const N: usize>(
    fields: &Object<'_, N>,
    name: &'static str,
    absent: f64,
    at: At<'_>,
    reports: &mut Reports,
) -> Result<Ratio, Fault> {
    let Some(raw) = fields.raw(name) else { return Ok(Ratio(absent)) };
    let at = At::Field(&at, name);
    if raw.get() == "null" {
        reports.number(at, "null, read as 0 (drained); a number of 0 or more should be here");
        return Ok(Ratio(0.0));
    }
    match number(raw) {
        Some(Ok(value)) => {
            if value < 0.0 {
                reports.number(at, "negative, counted as 0 (drained); a number of 0 or more should be here");
            }
            Ok(Ratio(value))
        }
        Some(Err(OutOfRange)) => {
            reports.number(at, OUT_OF_RANGE);
            Ok(Ratio(0.0))
        }
        None => Err(Fault::at(name, format!("{} where a number should be", kind(raw.get())))),
    }
}

/// What is said of a number that no `f64` holds.
pub(super) const OUT_OF_RANGE: &str = "a number out of range, read as 0; one below 1.8e308 should be here";

/// A number beyond `f64`.
pub(super) struct OutOfRange;

/// The number in `raw`, if it is one.
pub(super) fn number(raw: &RawValue) -> Option<Result<f64, OutOfRange>> {
    (kind(raw.get()) == "a number").then(|| match raw.get().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(OutOfRange),
    })
}
