#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_core::Wire;
use turnstream_anthropic::Anthropic;

fuzz_target!(|input: &[u8]| turnstream_fuzz::check(|| Anthropic::new("m").decoder(), input));
