package command

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// SettingFault is the fault of one setting. Its message begins with the setting as the user wrote
// it: "--max-series", "-n", or "sluice.yaml:3: max-series".
type SettingFault struct {
	Name    string // without dashes
	Written string
	Text    string
}

func (f *SettingFault) Error() string { return f.Written + " " + f.Text }

// Set gives a flag a value. An invalid one leaves the flag as it was: pflag's own types would turn
// to 0, which may be a second fault. The error continues the name of the setting.
func Set(flag *pflag.Flag, value string) error {
	before := flag.Value.String()
	err := flag.Value.Set(value)
	if err == nil {
		return nil
	}
	_ = flag.Value.Set(before)
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("is %q, which is too large", value)
	}
	if text, ok := mustBe[flag.Value.Type()]; ok {
		return fmt.Errorf("is %q; must be %s", value, text)
	}
	return fmt.Errorf("is %q; %w", value, err)
}

// mustBe describes the values of pflag's own types.
var mustBe = map[string]string{
	"int":      "a whole number",
	"float64":  "a number",
	"bool":     "true or false",
	"duration": "a duration, as in 90s, 10m or 24h (units are ms, s, m and h)",
}
