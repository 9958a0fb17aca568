package metric

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxQuoted is how many bytes of a client's text a message repeats.
const MaxQuoted = 512

// Truncate shortens text of more than limit bytes to its beginning and its length: "xxx... (900000
// bytes)". Without it a client could fill answers and logs.
func Truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit
	for end > 0 && end > limit-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes)", text[:end], len(text))
}

// TruncateArgs truncates the texts and errors among a message's arguments to MaxQuoted, in place.
func TruncateArgs(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			if len(arg) > MaxQuoted {
				args[i] = Truncate(arg, MaxQuoted)
			}
		case []byte:
			if len(arg) > MaxQuoted {
				args[i] = Truncate(string(arg), MaxQuoted)
			}
		case error:
			if text := arg.Error(); len(text) > MaxQuoted {
				args[i] = Truncate(text, MaxQuoted)
			}
		}
	}
	return args
}

const (
	excerptLength = 120
	// mostMasked is how much of a text is looked at for secrets before it is cut.
	mostMasked = 4 << 10
)

// Excerpt is the beginning of a client's text for a log. The log quotes it, but slog's JSON keeps
// the control characters beyond U+001F, which a terminal may interpret: Excerpt replaces those. It
// masks secrets.
func Excerpt(text []byte) string {
	excerpt := strings.Map(func(r rune) rune {
		if r >= 0x7f && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, MaskBeginning(text, excerptLength))
	if len(text) > excerptLength {
		excerpt += "..."
	}
	return excerpt
}

// MaskBeginning is at most limit bytes of a text's beginning, with secrets masked before it is cut: what tells that they are
// some may come later.
func MaskBeginning(text []byte, limit int) string {
	whole := Mask(string(text[:min(len(text), mostMasked)]))
	return whole[:min(len(whole), limit)]
}
