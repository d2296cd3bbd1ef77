#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_core::{ArgumentFragment, CallPreview, JsonScanner, is_json};

fuzz_target!(|input: &str| {
    // serde_json is the judge of syntax. It limits the depth, which the scanner does not.
    let valid = serde_json::from_str::<&serde_json::value::RawValue>(input).is_ok();
    let depth = input.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    if depth < 100 {
        assert_eq!(is_json(input), valid, "{input:?}");
    }
    let mut scanner = JsonScanner::default();
    let mut preview = CallPreview::new();
    let mut start = 0;
    for end in (0..=input.len()).filter(|end| input.is_char_boundary(*end)) {
        let Some(piece) = input.get(start..end) else { continue };
        scanner.push(piece.as_bytes());
        preview.push(&ArgumentFragment::new(piece));
        assert!(!(scanner.is_complete() && scanner.is_invalid()));
        start = end;
    }
    assert_eq!(scanner.is_complete(), is_json(input), "byte by byte: {input:?}");
    assert_eq!(preview.is_broken(), scanner.is_invalid(), "{input:?}");
    let _ = preview.value().to_string();
});
