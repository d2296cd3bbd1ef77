#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_bedrock::Bedrock;
use turnstream_core::Wire;
use turnstream_fuzz::Framing;

fuzz_target!(|input: &[u8]| turnstream_fuzz::check(
    Framing::Messages,
    || Bedrock::new("m", "us-east-1").decoder(),
    input
));
