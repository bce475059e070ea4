//! The syntax of DiskSim 3 and 4 parameter files: blocks `type NAME {key = value, …}`, lists,
//! comments, `source FILE`, `instantiate`, `topology`.

use std::path::{Component, Path, PathBuf};

use schedlab_sim::SimError;

const BYTES_MAX: u64 = 16 << 20;
const SOURCES_DEEP: usize = 8;
const BLOCKS_DEEP: usize = 32;

/// A block with its keys in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) entries: Vec<(String, Value)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    List(Vec<Value>),
    Block(Block),
}

/// A parameter file with all that it sources.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) blocks: Vec<Block>,
    /// Names of instances and of the block that each is one of.
    pub(super) instances: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Mark(char),
}

struct Tokens {
    all: std::vec::IntoIter<(usize, Token)>,
    next: Option<(usize, Token)>,
    line: usize,
    place: String,
}

/// Reads the file at `path`; sourced files must be below its folder.
pub(super) fn read(path: &Path) -> Result<File, SimError> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut reader = Reader {
        folder,
        open: Vec::new(),
        bytes: 0,
    };
    let mut file = File::default();
    reader.file(path, &mut file)?;
    Ok(file)
}

/// The text of a file beside a parameter file, such as a seek curve.
pub(super) fn beside(path: &Path, name: &str) -> Result<String, SimError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut reader = Reader {
        folder: folder.to_owned(),
        open: Vec::new(),
        bytes: 0,
    };
    let file = reader.below(name, &path.display().to_string())?;
    reader.text(&file)
}

struct Reader {
    folder: PathBuf,
    open: Vec<PathBuf>,
    bytes: u64,
}

impl Reader {
    fn text(&mut self, path: &Path) -> Result<String, SimError> {
        let place = path.display().to_string();
        let size = std::fs::metadata(path).map_err(|error| SimError::file(&place, error))?;
        self.bytes += size.len();
        if !size.is_file() || self.bytes > BYTES_MAX {
            return Err(SimError::file(
                place,
                "expected a file, at most 16 MiB with what it sources",
            ));
        }
        let bytes = std::fs::read(path).map_err(|error| SimError::file(&place, error))?;
        String::from_utf8(bytes).map_err(|_| SimError::file(place, "expected text"))
    }

    fn below(&self, name: &str, place: &str) -> Result<PathBuf, SimError> {
        let inside = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside || name.is_empty() {
            let detail = format!("source {name}: expected a file below the folder of this one");
            return Err(SimError::file(place, detail));
        }
        Ok(self.folder.join(name))
    }

    fn file(&mut self, path: &Path, into: &mut File) -> Result<(), SimError> {
        let place = path.display().to_string();
        if self.open.len() == SOURCES_DEEP || self.open.iter().any(|open| open == path) {
            return Err(SimError::file(
                place,
                "expected files that source each other at most 8 deep",
            ));
        }
        let text = self.text(path)?;
        if is_version_2(&text) {
            let detail = "this is a file of DiskSim 2 (`key: value`): expected DiskSim 3 or 4";
            return Err(SimError::file(place, detail));
        }
        self.open.push(path.to_owned());
        let mut tokens = Tokens::new(&text, place);
        while let Some(word) = tokens.word_or_end()? {
            match word.as_str() {
                "source" => {
                    let name = tokens.word()?;
                    let file = self.below(&name, &tokens.place)?;
                    self.file(&file, into)?;
                }
                "instantiate" => tokens.instantiate(into)?,
                "topology" => tokens.topology()?,
                _ => {
                    let name = match tokens.next_is('{') {
                        true => String::new(),
                        false => tokens.word()?,
                    };
                    tokens.mark('{')?;
                    let entries = self.entries(&mut tokens, 0)?;
                    into.blocks.push(Block {
                        kind: word,
                        name,
                        entries,
                    });
                }
            }
        }
        self.open.pop();
        Ok(())
    }

    /// The keys of a block up to its `}`.
    fn entries(
        &mut self,
        tokens: &mut Tokens,
        deep: usize,
    ) -> Result<Vec<(String, Value)>, SimError> {
        let mut entries = Vec::new();
        loop {
            if tokens.next_is(',') {
                tokens.take();
                continue;
            }
            if tokens.next_is('}') {
                tokens.take();
                return Ok(entries);
            }
            let key = tokens.words()?;
            tokens.mark('=')?;
            entries.push((key, self.value(tokens, deep + 1)?));
        }
    }

    fn value(&mut self, tokens: &mut Tokens, deep: usize) -> Result<Value, SimError> {
        if deep > BLOCKS_DEEP {
            return Err(tokens.wrong("blocks at most 32 deep"));
        }
        if tokens.next_is('[') {
            tokens.take();
            let mut list = Vec::new();
            loop {
                if tokens.next_is(',') {
                    tokens.take();
                } else if tokens.next_is(']') {
                    tokens.take();
                    return Ok(Value::List(list));
                } else {
                    list.push(self.value(tokens, deep + 1)?);
                }
            }
        }
        let words = tokens.words()?;
        if tokens.next_is('{') {
            tokens.take();
            let (kind, name) = words.split_once(' ').unwrap_or((&words, ""));
            let (kind, name) = (kind.to_owned(), name.to_owned());
            let entries = self.entries(tokens, deep + 1)?;
            return Ok(Value::Block(Block {
                kind,
                name,
                entries,
            }));
        }
        if let Some(name) = words.strip_prefix("source ") {
            let path = self.below(name, &tokens.place)?;
            let mut file = File::default();
            self.file(&path, &mut file)?;
            let only = (file.blocks.len() == 1).then(|| file.blocks.remove(0));
            let detail = format!("source {name}: expected one block in it");
            return only
                .map(Value::Block)
                .ok_or_else(|| SimError::file(&tokens.place, detail));
        }
        Ok(Value::Text(words))
    }
}

/// DiskSim 2 writes `key: value` lines and no blocks.
fn is_version_2(text: &str) -> bool {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let colons = lines.filter(|line| line.contains(": ")).count();
    colons > 2 && !text.contains('{')
}

impl Tokens {
    fn new(text: &str, place: String) -> Self {
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("");
            let mut word = String::new();
            for letter in line.chars() {
                let is_mark = "{}[],=".contains(letter);
                if (is_mark || letter.is_whitespace()) && !word.is_empty() {
                    all.push((number + 1, Token::Word(std::mem::take(&mut word))));
                }
                if is_mark {
                    all.push((number + 1, Token::Mark(letter)));
                } else if !letter.is_whitespace() && letter != '"' {
                    word.push(letter);
                }
            }
            if !word.is_empty() {
                all.push((number + 1, Token::Word(word)));
            }
        }
        let mut tokens = Tokens {
            all: all.into_iter(),
            next: None,
            line: 1,
            place,
        };
        tokens.next = tokens.all.next();
        tokens
    }

    fn take(&mut self) -> Option<Token> {
        let (line, token) = std::mem::replace(&mut self.next, self.all.next())?;
        self.line = line;
        Some(token)
    }

    fn next_is(&self, mark: char) -> bool {
        matches!(&self.next, Some((_, Token::Mark(next_mark))) if *next_mark == mark)
    }

    fn wrong(&self, expected: &str) -> SimError {
        let line = self.next.as_ref().map_or(self.line, |(line, _)| *line);
        let actual = match &self.next {
            Some((_, Token::Word(word))) => {
                format!("{:?}", word.chars().take(40).collect::<String>())
            }
            Some((_, Token::Mark(mark))) => format!("{mark:?}"),
            None => "the end of the file".into(),
        };
        SimError::file(
            &self.place,
            format!("line {line}: expected {expected}, found {actual}"),
        )
    }

    fn mark(&mut self, mark: char) -> Result<(), SimError> {
        if !self.next_is(mark) {
            return Err(self.wrong(&format!("{mark:?}")));
        }
        self.take();
        Ok(())
    }

    fn word(&mut self) -> Result<String, SimError> {
        match self.word_or_end()? {
            Some(word) => Ok(word),
            None => Err(self.wrong("a word")),
        }
    }

    fn word_or_end(&mut self) -> Result<Option<String>, SimError> {
        match &self.next {
            None => Ok(None),
            Some((_, Token::Mark(_))) => Err(self.wrong("a word")),
            Some((_, Token::Word(_))) => match self.take() {
                Some(Token::Word(word)) => Ok(Some(word)),
                _ => Ok(None),
            },
        }
    }

    /// Words up to the next mark, with one space between.
    fn words(&mut self) -> Result<String, SimError> {
        let mut words = self.word()?;
        while matches!(self.next, Some((_, Token::Word(_)))) {
            if let Some(Token::Word(word)) = self.take() {
                words.push(' ');
                words.push_str(&word);
            }
        }
        Ok(words)
    }

    /// `[ name, name .. name ] as Block`
    fn instantiate(&mut self, into: &mut File) -> Result<(), SimError> {
        self.mark('[')?;
        let mut names = Vec::new();
        while !self.next_is(']') {
            if self.next_is(',') {
                self.take();
            } else {
                names.push(self.word()?);
            }
        }
        self.take();
        if self.word()? != "as" {
            return Err(self.wrong("`as`"));
        }
        let block = self.word()?;
        let instances = names.into_iter().map(|name| (name, block.clone()));
        into.instances.extend(instances);
        Ok(())
    }

    /// Words and a bracket with brackets in it: how parts are joined, which is not read.
    fn topology(&mut self) -> Result<(), SimError> {
        while !self.next_is('[') {
            self.word()?;
        }
        let mut open = 0usize;
        loop {
            match self.take() {
                Some(Token::Mark('[')) => open += 1,
                Some(Token::Mark(']')) => open -= 1,
                Some(_) => {}
                None => return Err(self.wrong("']'")),
            }
            if open == 0 {
                return Ok(());
            }
        }
    }
}
