package metric

import (
	"fmt"
	"unicode/utf8"
)

// MaxEchoed is how many bytes of a client's text a message repeats.
const MaxQuoted = 512

// Cut is a text as a message repeats it: as it stands or, if it has more than most bytes, its beginning and how many it
// has: "xxx... (900000 bytes)". Who sends much must not fill an answer or a log with it.
func Truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s... (%d bytes)", text[:end], len(text))
}

// CutArgs cuts the texts and errors among a message's arguments to MaxEchoed. The slice is changed in place.
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
