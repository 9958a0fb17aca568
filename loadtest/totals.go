package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// total returns the sum of the values at the given paths of the server's HTTP API.
func total(ctx context.Context, client *http.Client, httpAddress string, paths []string) (int64, error) {
	var sum int64
	for _, path := range paths {
		values, err := readValues(ctx, client, "http://"+httpAddress+path)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		for _, v := range values {
			sum += v
		}
	}
	return sum, nil
}

func readValues(ctx context.Context, client *http.Client, url string) ([]int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return parseValues(body)
}

// parseValues accepts whole numbers only: a fractional count is wrong.
func parseValues(body []byte) ([]int64, error) {
	var answer struct {
		Items []struct {
			Value json.Number `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	values := make([]int64, len(answer.Items))
	for i, item := range answer.Items {
		v, err := item.Value.Int64()
		if err != nil {
			return nil, fmt.Errorf("value is %q; must be a whole number", item.Value)
		}
		values[i] = v
	}
	return values, nil
}
