//! Images, documents and sound: their formats, and the names of documents.

use std::collections::HashSet;

use turnstream_core::{Audio, Document, Error, Image};

use super::body::{Media, Source, Written};

/// The names of the documents of a request: the provider refuses one that comes twice.
#[derive(Debug, Default)]
pub(super) struct DocumentNames(HashSet<String>);

pub(super) fn image(image: &Image) -> Result<Written<'_>, Error> {
    let (format, source) = read("an image", &image.source, &IMAGES)?;
    Ok(Written::Image(Media { format, name: None, source }))
}

pub(super) fn audio(audio: &Audio) -> Result<Written<'_>, Error> {
    let (format, source) = read("sound", &audio.source, &SOUNDS)?;
    Ok(Written::Audio(Media { format, name: None, source }))
}

pub(super) fn document<'a>(document: &'a Document, names: &mut DocumentNames) -> Result<Written<'a>, Error> {
    let (format, source) = read("a document", &document.source, &DOCUMENTS)?;
    let name = names.fit(document.name.as_deref().unwrap_or_default());
    Ok(Written::Document(Media { format, name: Some(name), source }))
}

impl DocumentNames {
    /// The name in the few characters that the provider takes, and with a number if it is taken.
    fn fit(&mut self, name: &str) -> String {
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-()[]".contains(letter);
        let fitting: String = name.chars().map(|letter| if fits(letter) { letter } else { ' ' }).collect();
        let mut words = fitting.split_whitespace().collect::<Vec<_>>().join(" ");
        words.truncate(NAME_CHARACTERS);
        let words = if words.is_empty() { "document" } else { words.trim_end() };
        let mut unique = words.to_owned();
        let mut number = 2;
        while !self.0.insert(unique.clone()) {
            unique = format!("{words} {number}");
            number += 1;
        }
        unique
    }
}

/// The format and the source, for media that the provider takes.
fn read<'a>(
    what: &str,
    source: &'a turnstream_core::Source,
    formats: &[(&str, &'static str)],
) -> Result<(&'static str, Source<'a>), Error> {
    let known =
        |kind: &str| formats.iter().find(|(name, _)| name.eq_ignore_ascii_case(kind)).map(|(_, f)| *f);
    match source {
        turnstream_core::Source::Base64 { media_type, data } => {
            let kind = media_type.split(';').next().unwrap_or_default().trim();
            let format = known(kind)
                .ok_or_else(|| Error::config(format!("this wire takes {what}, but not as `{media_type}`")))?;
            Ok((format, Source::Bytes(data)))
        }
        turnstream_core::Source::Url(uri) if uri.starts_with("s3://") => {
            let ending = uri.rsplit_once('.').map(|(_, ending)| ending).unwrap_or_default();
            let format = known(ending).ok_or_else(|| {
                Error::config(format!(
                    "the end of the address of {what} does not say its format, for example .pdf"
                ))
            })?;
            Ok((format, Source::S3Location { uri }))
        }
        turnstream_core::Source::Url(_) => {
            Err(Error::config(format!("this wire takes {what} only as bytes or from an `s3://` address")))
        }
        _ => Err(Error::config(format!("this wire does not know the source of {what}"))),
    }
}

/// Media types and endings of addresses, with the provider's words for them.
const IMAGES: [(&str, &str); 9] = [
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("png", "png"),
    ("jpg", "jpeg"),
    ("jpeg", "jpeg"),
    ("gif", "gif"),
    ("webp", "webp"),
];

const DOCUMENTS: [(&str, &str); 19] = [
    ("application/pdf", "pdf"),
    ("text/csv", "csv"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("text/html", "html"),
    ("text/plain", "txt"),
    ("text/markdown", "md"),
    ("pdf", "pdf"),
    ("csv", "csv"),
    ("doc", "doc"),
    ("docx", "docx"),
    ("xls", "xls"),
    ("xlsx", "xlsx"),
    ("html", "html"),
    ("htm", "html"),
    ("txt", "txt"),
    ("md", "md"),
];

const SOUNDS: [(&str, &str); 17] = [
    ("audio/mpeg", "mp3"),
    ("audio/mp3", "mp3"),
    ("audio/opus", "opus"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
    ("audio/mp4", "mp4"),
    ("audio/ogg", "ogg"),
    ("audio/webm", "webm"),
    ("mp3", "mp3"),
    ("opus", "opus"),
    ("wav", "wav"),
    ("aac", "aac"),
    ("flac", "flac"),
    ("m4a", "m4a"),
    ("ogg", "ogg"),
];

const NAME_CHARACTERS: usize = 190;
