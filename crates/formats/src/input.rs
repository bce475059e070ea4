//! The bytes of a trace: plain, gzip, zstd, bzip2 or xz by their first bytes; lines and records
//! from one fixed buffer, so that memory does not depend on the file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::TraceError;

/// The longest line that is one; anything longer is no text trace.
pub const LINE_BYTES_MAX: usize = 64 << 10;
const BUFFER_BYTES: usize = 256 << 10;
/// zstd windows up to 32 MiB (level 20); larger ones would not be bounded memory.
const ZSTD_WINDOW_LOG_MAX: u32 = 25;

/// What an .xz file may take to decompress (level 9 takes 65 MiB).
const XZ_MEMORY_BYTES_MAX: u64 = 128 << 20;

/// A buffered, decompressed trace file.
pub struct Input {
    path: PathBuf,
    source: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    exhausted: bool,
    head: Vec<u8>,
}

/// One line of a file.
pub enum Line<'a> {
    /// A line without its end.
    Text(&'a [u8]),
    /// The start of a line above [`LINE_BYTES_MAX`]; the rest was skipped.
    TooLong(&'a [u8]),
}

impl Input {
    /// Opens a file and checks its first bytes.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let mut file = File::open(path).map_err(TraceError::io(path, "open"))?;
        let mut magic = Vec::with_capacity(4);
        (&mut file)
            .take(4)
            .read_to_end(&mut magic)
            .map_err(TraceError::io(path, "read"))?;
        let source: Box<dyn Read + Send> = if file.seek(SeekFrom::Start(0)).is_ok() {
            decompressor(file, &magic).map_err(TraceError::io(path, "decompress"))?
        } else {
            // A pipe cannot go back: what was read comes first.
            let start = std::io::Cursor::new(magic.clone());
            decompressor(start.chain(file), &magic).map_err(TraceError::io(path, "decompress"))?
        };
        Ok(Self::new(path, source))
    }

    /// Reads from memory; `name` is the name of the file in errors.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, TraceError> {
        let path = Path::new(name);
        let magic = bytes[..bytes.len().min(4)].to_vec();
        let source = decompressor(std::io::Cursor::new(bytes), &magic)
            .map_err(TraceError::io(path, "decompress"))?;
        Ok(Self::new(path, source))
    }

    fn new(path: &Path, source: Box<dyn Read + Send>) -> Self {
        Input {
            path: path.to_owned(),
            source,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            exhausted: false,
            head: Vec::new(),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Up to `bytes` of what comes next, without taking it (at most half of the buffer).
    pub fn peek(&mut self, bytes: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < bytes && self.fill()? {}
        Ok(&self.buffer[self.start..self.end.min(self.start + bytes)])
    }

    /// The next line, or nothing at the end.
    #[inline]
    pub fn line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        let mut searched = 0;
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', &waiting[searched..]) {
                let from = self.start;
                self.start += searched + at + 1;
                return Ok(Some(Line::Text(&self.buffer[from..self.start - 1])));
            }
            searched = waiting.len();
            if searched > LINE_BYTES_MAX {
                return self.overlong();
            }
            if !self.fill()? {
                let from = std::mem::replace(&mut self.start, self.end);
                let rest = &self.buffer[from..self.end];
                return Ok((!rest.is_empty()).then_some(Line::Text(rest)));
            }
        }
    }

    /// The next `bytes` bytes; fewer only at the end of the file.
    pub fn take(&mut self, bytes: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < bytes && self.fill()? {}
        let from = self.start;
        self.start = self.end.min(from + bytes);
        Ok(&self.buffer[from..self.start])
    }

    /// Passes over a line that is too long, keeping what is shown of it.
    fn overlong(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        self.head = self.buffer[self.start..self.start + 128].to_vec();
        loop {
            let waiting = &self.buffer[self.start..self.end];
            if let Some(at) = memchr::memchr(b'\n', waiting) {
                self.start += at + 1;
                break;
            }
            self.start = self.end;
            if !self.fill()? {
                break;
            }
        }
        Ok(Some(Line::TooLong(&self.head)))
    }

    /// Reads more behind what waits; false at the end of the file.
    #[cold]
    fn fill(&mut self) -> Result<bool, TraceError> {
        if self.exhausted {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end < BUFFER_BYTES {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.exhausted = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::io(&self.path, "read")(error)),
            }
        }
        Ok(true)
    }
}

/// The reader that fits the first bytes of a file.
fn decompressor<R: Read + Send + 'static>(
    source: R,
    magic: &[u8],
) -> std::io::Result<Box<dyn Read + Send>> {
    Ok(match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(source)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder = zstd::stream::read::Decoder::new(source)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        // "\xfd7zX" begins an .xz file.
        [0xfd, b'7', b'z', b'X', ..] => {
            let limits = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, 0x08)?;
            Box::new(liblzma::read::XzDecoder::new_stream(source, limits))
        }
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(source)),
        _ => Box::new(source),
    })
}
