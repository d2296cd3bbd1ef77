#![no_main]

use libfuzzer_sys::fuzz_target;
use turnstream_core::Wire;
use turnstream_openai_chat::OpenAiChat;

fuzz_target!(|input: &[u8]| turnstream_fuzz::check(|| OpenAiChat::new("m").decoder(), input));
