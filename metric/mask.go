package metric

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Mask replaces what looks like a secret in a rejected line: the values that follow words such as
// authorization, cookie, basic, bearer, token, password, credential, secret and api-key, and the password of a URL,
// or the token before its host, and a line of a key in PEM. A client may send credentials to the
// wrong port, and rejected lines are logged and listed.
// Only the first mostMasked bytes of a longer line are looked at and returned.
// Beyond maxSearched in a second, all of a line that may have a secret is masked, and beyond maxLooked all of any line.
func Mask(line string) string {
	line = line[:min(len(line), mostMasked)]
	switch {
	case line == "":
		return ""
	case !looked.affords(len(line), maxLooked):
		return masked
	case !mayHaveSecrets(line):
		return line
	case !searched.affords(len(line), maxSearched):
		return masked
	}
	return mask(line)
}

func mask(line string) string {
	spans := secretsOf(line)
	if len(spans) == 0 {
		return line
	}
	var out strings.Builder
	end := 0
	for _, s := range spans {
		out.WriteString(line[end:s.begin])
		out.WriteString(masked)
		end = s.end
	}
	out.WriteString(line[end:])
	return replaceAll(out.String(), wordsOf(line, spans)) // a secret may be there twice
}

// MaskAbout masks the secrets of a line in a message about it, which may quote a value alone, its
// beginning, or its escaped form. at is the offset in the line that the message is about: of a long line, mostMasked
// bytes around it are looked at.
func MaskAbout(message string, line []byte, at int) string {
	line = line[min(max(at-mostMasked/2, 0), len(line)):]
	text, message := string(line[:min(len(line), mostMasked)]), message[:min(len(message), mostMasked)]
	switch {
	case !looked.affords(len(text), maxLooked):
		return masked
	case !mayHaveSecrets(text):
		return Mask(message)
	case !searched.affords(len(text)+len(message), maxSearched):
		return Mask(quotation.ReplaceAllString(message, `"`+masked+`"`))
	}
	return maskAbout(message, text)
}

func maskAbout(message, text string) string {
	secrets := wordsOf(text, secretsOf(text))
	for _, secret := range secrets {
		if quoted := strconv.Quote(secret); len(quoted) > len(secret)+2 {
			secrets = append(secrets, quoted[1:len(quoted)-1]) // as the message has it
		}
	}
	message = replaceAll(message, secrets)
	if len(secrets) > 0 {
		message = quotation.ReplaceAllStringFunc(message, func(quoted string) string {
			if slices.ContainsFunc(secrets, func(secret string) bool { return hasPartOf(quoted, secret) }) {
				return `"` + masked + `"`
			}
			return quoted
		})
	}
	return mask(message)
}

// budget is one of the process, of bytes a second. Any goroutine may use it; two that begin a second may both get some of its
// bytes twice.
type budget struct{ second, bytes atomic.Int64 }

// A flood of lines made for it would take all processors: to look for marks of secrets takes some nanoseconds a byte, and to search
// a text that has some, microseconds.
var looked, searched budget

const maxLooked, maxSearched = 4 << 20, 128 << 10

func (b *budget) affords(n, most int) bool {
	if now := time.Now().Unix(); b.second.Swap(now) != now {
		b.bytes.Store(0)
	}
	return b.bytes.Add(int64(n)) <= int64(most)
}

// wordsOf are the secrets of a line and the words of each, the longest first, if they are long enough to be told from
// other text.
func wordsOf(line string, spans []span) (all []string) {
	add := func(secret string) {
		if len(secret) >= leastSecret {
			all = append(all, secret)
		}
	}
	for _, s := range spans {
		whole := line[s.begin:s.end]
		add(whole)
		for word := range strings.FieldsSeq(whole) {
			if len(word) < len(whole) {
				add(word)
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

func replaceAll(text string, secrets []string) string {
	pairs := make([]string, 0, 2*len(secrets))
	for _, secret := range secrets {
		pairs = append(pairs, secret, masked)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// hasPartOf reports whether a quotation is a part of a secret, or has leastPart bytes in a row of what a message may quote
// of it.
func hasPartOf(text, secret string) bool {
	if whole := strings.Trim(text, `"`); len(whole) >= leastSecret && strings.Contains(secret, whole) {
		return true
	}
	if len(text) < leastPart {
		return false
	}
	secret = secret[:min(len(secret), 4*MaxQuoted)]
	for i := 0; i+leastPart <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+leastPart]) {
			return true
		}
	}
	return false
}

const (
	masked = "***"
	// leastSecret is the shortest value that is masked wherever a message has it.
	leastSecret = 4
	// leastPart is the shortest part of a secret for which the quotation that has it is masked.
	leastPart = 8
)

var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
