package metric

import (
	"regexp"
	"strings"
)

// Mask replaces what looks like a secret in a rejected line: the values that follow the words
// authorization, bearer, token, password, secret and api-key. A client may send credentials to the
// wrong port, and rejected lines are logged and listed.
func Mask(line string) string {
	for _, secret := range secretsOf(line) {
		line = strings.ReplaceAll(line, secret, masked)
	}
	return line
}

// MaskAbout masks the secrets of a line in a message about it, which may quote a value alone.
func MaskAbout(message string, line []byte) string {
	for _, secret := range secretsOf(string(line)) {
		if len(secret) >= leastSecret {
			message = strings.ReplaceAll(message, secret, masked)
		}
	}
	return Mask(message)
}

const (
	masked = "***"
	// leastSecret is the shortest value that is masked wherever a message has it.
	leastSecret = 4
)

var (
	authorization = regexp.MustCompile(`(?i)authorization["']?\s*[:=]\s*(.+)`)
	secretWord    = regexp.MustCompile(`(?i)(?:bearer|token|password|secret|api[-_]key)["']?(?:\s*[:=]\s*|\s+)["']?([^\s"'&,;|]+)`)
)

// secretsOf returns the secrets of a line, the longest first.
func secretsOf(line string) (all []string) {
	if found := authorization.FindStringSubmatch(line); found != nil {
		all = append(append(all, found[1]), strings.Fields(found[1])...)
	}
	for _, found := range secretWord.FindAllStringSubmatch(line, -1) {
		all = append(all, found[1])
	}
	return all
}
