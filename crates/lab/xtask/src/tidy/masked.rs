//! Rust source with comments and literals blanked out, so that a rule about code does not read prose.

/// The same text, byte for byte in length and line, with spaces for comments and the inside of literals.
pub(super) fn mask(source: &str) -> String {
    let mut masked = Vec::with_capacity(source.len());
    let mut rest = source.as_bytes();
    while let Some((&byte, _)) = rest.split_first() {
        let hidden = hidden_length(rest, masked.last().copied());
        let (now, later) = rest.split_at(hidden.max(1).min(rest.len()));
        if hidden == 0 {
            masked.push(byte);
        } else {
            masked.extend(now.iter().map(|&o| if o == b'\n' { o } else { b' ' }));
        }
        rest = later;
    }
    String::from_utf8(masked).unwrap_or_default()
}

/// How many bytes from here on are a comment or a literal; 0 for code.
fn hidden_length(rest: &[u8], before: Option<u8>) -> usize {
    let in_word = before.is_some_and(|o| o.is_ascii_alphanumeric() || o == b'_');
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|&o| o == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_length(rest),
        [b'"', ..] => quoted_length(rest),
        [b'r', b'"' | b'#', ..] | [b'b', b'r', b'"' | b'#', ..] if !in_word => raw_length(rest),
        [b'\'', b'\\', ..] => 2 + rest.iter().skip(2).skip(1).position(|&o| o == b'\'').map_or(0, |n| n + 2),
        [b'\'', ..] => char_length(rest),
        // Bytes beyond ASCII in code are only ever identifiers, which no rule names.
        [first, ..] if !first.is_ascii() => rest.iter().take_while(|o| !o.is_ascii()).count(),
        [..] => 0,
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            [..] => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `r"…"`, `r#"…"#`, `br#"…"#`; 0 for a raw identifier such as `r#type`.
fn raw_length(rest: &[u8]) -> usize {
    let start = rest.iter().position(|&o| o == b'r').unwrap_or(0) + 1;
    let hashes = rest[start..].iter().take_while(|&&o| o == b'#').count();
    if rest.get(start + hashes) != Some(&b'"') {
        return 0;
    }
    let mut end = vec![b'"'];
    end.resize(hashes + 1, b'#');
    let body = start + hashes + 1;
    rest[body..].windows(end.len()).position(|w| w == end).map_or(rest.len(), |n| body + n + end.len())
}

/// `'x'` is a literal, `'x` a lifetime.
fn char_length(rest: &[u8]) -> usize {
    let width = rest.get(1).map_or(0, |&first| match first {
        0..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    });
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

/// For each line of masked source, whether it belongs to an item under `#[cfg(test)]`.
pub(super) fn test_lines(masked: &str) -> Vec<bool> {
    let mut marks = vec![false; masked.lines().count()];
    let mut from = 0;
    while let Some(found) = masked[from..].find("#[cfg(test)]") {
        let start = from + found;
        let end = item_end(masked, start + "#[cfg(test)]".len());
        let first = line_of(masked, start);
        for mark in marks.iter_mut().skip(first - 1).take(line_of(masked, end) - first + 1) {
            *mark = true;
        }
        from = end;
    }
    marks
}

/// Where the item that begins at `start` ends: its matching brace, or its semicolon.
fn item_end(masked: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in masked.bytes().enumerate().skip(start) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' if depth <= 1 => return at,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return at,
            _ => {}
        }
    }
    masked.len()
}

/// The line, from 1, that holds the byte at `at`.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&o| o == b'\n').count()
}

/// The lines, from 1, on which `word` stands alone.
pub(super) fn lines_with_word<'a>(masked: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let has = move |line: &str| {
        let part = |c: char| c.is_alphanumeric() || c == '_';
        line.match_indices(word)
            .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
    };
    masked.lines().enumerate().filter(move |(_, line)| has(line)).map(|(n, _)| n + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expect: &str) {
        let masked = mask(source);
        assert_eq!(masked.len(), source.len(), "{source}");
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), expect);
    }

    #[test]
    fn prose_and_literals_are_blanked() {
        check("a // unsafe\nb", "a b");
        check("a /* x /* y */ z */ b", "a b");
        check(r#"f("unsafe \" }", x)"#, "f( , x)");
        check("f(r#\"a \" b\"#, r#type)", "f( , r#type)");
        check("f('{', '\\'', '\\u{7b}', b'{', &'a str)", "f( , , , b , &'a str)");
        check("let é = \"ä\";", "let = ;");
    }

    #[test]
    fn test_items_are_marked_to_their_closing_brace() {
        let source =
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\"; }\n}\nfn c() {}\n#[cfg(test)]\nmod more;\n";
        assert_eq!(test_lines(&mask(source)), [false, true, true, true, true, false, true, true]);
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(lines_with_word("unsafe {}\nunsafe_code\nx.unsafe", "unsafe").collect::<Vec<_>>(), [1, 3]);
    }
}
