// Package pattern parses regular expressions that somebody who is not trusted has written: in time and memory that their
// length bounds. It knows no name that they match.
//
// Its users compile what it accepts with package regexp.
package pattern

import (
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxWide bounds the Unicode classes and the ranges of letters of an expression. Package syntax appends the ranges of a
// class (\pC has 1,400 bounds), sorts them all for each class in brackets, and folds each letter of a range by itself where
// case doesn't matter: [B-\x{1e942}] takes 5 ms.
const (
	maxWide     = 4
	wideLetters = 8192 // letters of a range that count as a class
)

// Parse parses an expression of RE2 whose parts are few.
func Parse(text string) (*syntax.Regexp, error) {
	if n := wide(text); n > maxWide {
		return nil, fmt.Errorf(`it has %d Unicode classes, such as \pL, and ranges beyond ASCII, of which one of %d letters counts as several; must have at most %d: write [^…] of what is left out`,
			n, wideLetters, maxWide)
	}
	return syntax.Parse(text, syntax.Perl)
}

// wide is about the number of Unicode classes and of ranges beyond ASCII of an expression, and not less.
func wide(text string) (n int) {
	last := rune(0) // the letter before, 0 after an escape
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			if text[i+1] == 'p' || text[i+1] == 'P' {
				n++
			}
			last, i = 0, i+2
		case text[i] == '-' && i+1 < len(text):
			if end := endOfRange(text[i+1:]); end >= utf8.RuneSelf {
				n += 1 + int(max(end-last, 0))/wideLetters
			}
			last, i = '-', i+1
		default:
			r, size := utf8.DecodeRuneInString(text[i:])
			if last = r; r == '}' {
				last = 0 // perhaps of \x{61}
			}
			i += size
		}
	}
	return n
}

// endOfRange is the letter with which a text begins; that of an escape may be a higher one than it is.
func endOfRange(text string) rune {
	if digits, is := strings.CutPrefix(text, `\x`); is {
		if braced, is := strings.CutPrefix(digits, "{"); is {
			digits, _, _ = strings.Cut(braced, "}")
		} else {
			digits = digits[:min(2, len(digits))]
		}
		if n, err := strconv.ParseUint(digits, 16, 31); err == nil && n < utf8.MaxRune {
			return rune(n)
		}
		return utf8.MaxRune
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// Instructions is about the compiled size of an expression, computed without compiling it: "(a{100}){10}" is short and
// large. A class is one, whatever it has; Bytes counts its ranges.
func Instructions(r *syntax.Regexp) int {
	n := 1
	if r.Op == syntax.OpLiteral {
		n = len(r.Rune)
	}
	for _, sub := range r.Sub {
		n = min(n+Instructions(sub), 1<<30)
	}
	if r.Op == syntax.OpRepeat {
		n *= max(r.Max, r.Min, 1)
	}
	return min(n, 1<<30)
}
