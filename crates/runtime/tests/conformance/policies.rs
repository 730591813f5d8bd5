//! The policies that can be deployed, from the kernel's list of what can be written.

use curtail_kernel::Policy;

/// Every form of a deployable policy, with and without what may be left out: `delayed:D`,
/// `delayed:D:cc`, …
pub fn forms() -> Vec<String> {
    let mut forms = Vec::new();
    for form in Policy::live_forms() {
        match form.split_once('[') {
            None => forms.push(form.to_owned()),
            Some((kept, rest)) => {
                let optional = rest.trim_end_matches(']');
                forms.extend([kept.to_owned(), format!("{kept}{optional}")]);
            }
        }
    }
    forms
}

/// A policy of a form: with a bound for N, a delay for D and a probability for Q.
pub fn fill(form: &str, bound: u32, delay: &str, probability: &str) -> Policy {
    let part = |part: &str| match part {
        "N" => bound.to_string(),
        "D" => delay.to_owned(),
        "Q" => probability.to_owned(),
        word => word.to_owned(),
    };
    let text: Vec<String> = form.split(':').map(part).collect();
    Policy::parse(&text.join(":"), None).expect("a form has N, D and Q for numbers, no others")
}

/// Is a policy of this form?
pub fn is_of(policy: &str, form: &str) -> bool {
    let (policy, form): (Vec<_>, Vec<_>) = (policy.split(':').collect(), form.split(':').collect());
    policy.len() == form.len()
        && policy
            .iter()
            .zip(form)
            .all(|(part, form)| matches!(form, "N" | "D" | "Q") || *part == form)
}
