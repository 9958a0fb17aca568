package metric

import (
	"regexp"
	"slices"
	"strings"
)

// Mask replaces what looks like a secret in a rejected line: the values that follow words such as
// authorization, cookie, basic, bearer, token, password, credential, secret and api-key, and the password of a URL,
// or the token before its host. A client may send credentials to the wrong port, and rejected lines are logged and listed.
func Mask(line string) string {
	spans := secretsOf(line)
	if len(spans) == 0 {
		return line
	}
	var out strings.Builder
	end := 0
	for i, s := range spans {
		if i == 0 || s.begin > end {
			out.WriteString(line[end:s.begin])
			out.WriteString(masked)
		}
		end = max(end, s.end)
	}
	out.WriteString(line[end:])
	return replaceAll(out.String(), wordsOf(line, spans)) // a secret may be there twice
}

// MaskAbout masks the secrets of a line in a message about it, which may quote a value alone, its
// beginning, or its escaped form.
func MaskAbout(message string, line []byte) string {
	secrets := wordsOf(string(line), secretsOf(string(line)))
	message = replaceAll(message, secrets)
	if len(secrets) > 0 {
		message = quotation.ReplaceAllStringFunc(message, func(quoted string) string {
			if slices.ContainsFunc(secrets, func(secret string) bool { return hasPartOf(quoted, secret) }) {
				return `"` + masked + `"`
			}
			return quoted
		})
	}
	return Mask(message)
}

// wordsOf are the secrets of a line and the words of each, the longest first, if they are long enough to be told from
// other text.
func wordsOf(line string, spans []span) (all []string) {
	for _, s := range spans {
		all = append(append(all, line[s.begin:s.end]), strings.Fields(line[s.begin:s.end])...)
	}
	all = slices.DeleteFunc(all, func(secret string) bool { return len(secret) < leastSecret })
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
