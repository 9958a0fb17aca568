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

const excerptLength = 120

// Excerpt is the beginning of a client's text for a log. The log quotes it, but slog's JSON keeps
// the control characters beyond U+001F, which a terminal may interpret: Excerpt replaces those. It
// masks secrets.
func Excerpt(text []byte) string {
	excerpt := Mask(strings.Map(func(r rune) rune {
		if r >= 0x7f && unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, string(text[:min(len(text), excerptLength)])))
	if len(text) > excerptLength {
		excerpt += "..."
	}
	return excerpt
}
