package explain

import (
	"encoding/json"
	"regexp"
	"strings"
)

// Commands are for people to copy into a shell, and pushers choose the names in them.

// plainWord is a word that a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-][A-Za-z0-9_./:@%+,=-]*$`)

// Word is a text as one word of a shell's command.
func Word(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// quoted is a value as JSON, as an argument in a shell.
func quoted(value any) string {
	body, err := json.Marshal(value)
	if err != nil {
		return "…" // of maps of strings and numbers there is none
	}
	return "'" + strings.ReplaceAll(string(body), "'", `'\''`) + "'"
}

// applying is the command that applies an object. It is one line, so that it survives indentation.
func applying(object map[string]any) string {
	return "echo " + quoted(object) + " | kubectl apply -f -"
}
