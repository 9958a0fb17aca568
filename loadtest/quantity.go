package loadtest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// wholeQuantity parses a whole number in Kubernetes' notation, such as "12" or "3k". A fraction is
// an error.
func wholeQuantity(text string) (int64, error) {
	digits, factor := text, int64(1)
	if at := strings.IndexAny(text, "kMGTPE"); at >= 0 && at == len(text)-1 {
		digits = text[:at]
		for range strings.IndexByte("kMGTPE", text[at]) + 1 {
			factor *= 1000
		}
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("quantity is %q; must be a whole number", text)
	}
	return v * factor, nil
}

// sumJSON returns the number of items in a MetricValueList in JSON, and the sum of all values.
func sumJSON(body []byte) (items int, sum int64, err error) {
	var list struct {
		Items []struct{ Value string }
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, 0, err
	}
	for _, item := range list.Items {
		v, err := wholeQuantity(item.Value)
		if err != nil {
			return 0, 0, err
		}
		sum += v
	}
	return len(list.Items), sum, nil
}
