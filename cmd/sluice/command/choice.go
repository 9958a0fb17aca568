package command

import (
	"encoding"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-metrics/sluice/internal/suggest"
)

// Choice is a flag that takes one of a few words. Its variable is a string, or a type that converts
// itself to and from text.
type Choice struct {
	variable any
	Words    []string
}

// NewChoice is a flag that sets the variable to one of these words.
func NewChoice(variable any, words []string) *Choice { return &Choice{variable, words} }

// Set implements pflag.Value.
func (c *Choice) Set(s string) error {
	word := strings.ToLower(s)
	if !slices.Contains(c.Words, word) {
		return fmt.Errorf("must be %s%s", OneOf(c.Words), suggest.DidYouMean(word, c.Words))
	}
	if variable, ok := c.variable.(*string); ok {
		*variable = word
		return nil
	}
	return c.variable.(encoding.TextUnmarshaler).UnmarshalText([]byte(word))
}

func (c *Choice) String() string {
	if variable, ok := c.variable.(*string); ok {
		return *variable
	}
	text, err := c.variable.(encoding.TextMarshaler).MarshalText()
	if err != nil {
		return ""
	}
	return strings.ToLower(string(text))
}

// Type implements pflag.Value.
func (c *Choice) Type() string { return strings.Join(c.Words, "|") }

func (c *Choice) Target() any { return c.variable }

// OneOf lists alternatives: "a, b or c".
func OneOf(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
