package exposition

import (
	"bytes"
	"strconv"
	"strings"
)

// Negotiate picks the format that an Accept header prefers, as expfmt does for a Pushgateway: the
// one with the highest quality, of equal ones the first, text if it names none. The escaping stands
// beside the format: without one, names are escaped with underscores.
func Negotiate(accept []byte) (Format, Escaping) {
	best, format, escaping := 0.0, Text, Underscores
	for len(accept) > 0 {
		var one []byte
		one, accept, _ = bytes.Cut(accept, []byte{','})
		media, rest, _ := strings.Cut(string(one), ";")
		params := mediaParams(rest)
		if f, ok := formatOf(strings.ToLower(strings.TrimSpace(media)), params); ok && quality(params) > best {
			best, format = quality(params), f
			escaping, _ = ParseEscaping(params["escaping"])
		}
	}
	return format, escaping
}

// formatOf returns the format of a media range.
func formatOf(media string, params map[string]string) (Format, bool) {
	version := params["version"]
	switch media {
	case "application/vnd.google.protobuf":
		return Protobuf, params["proto"] == "io.prometheus.client.MetricFamily" && params["encoding"] == "delimited"
	case "application/openmetrics-text":
		return OpenMetrics, version == "" || version == "1.0.0" || version == "0.0.1"
	case "text/plain":
		return Text, version == "" || version == "0.0.4"
	case "text/*", "*/*":
		return Text, true
	}
	return 0, false
}

func mediaParams(text string) map[string]string {
	params := map[string]string{}
	for text != "" {
		var one string
		one, text, _ = strings.Cut(text, ";")
		key, value, _ := strings.Cut(one, "=")
		params[strings.ToLower(strings.TrimSpace(key))] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	return params
}

// Quality is the quality in the parameters of a header's element: 1 if it is missing or invalid.
func Quality(params string) float64 { return quality(mediaParams(params)) }

// quality is 1 if the parameter is missing or invalid.
func quality(params map[string]string) float64 {
	if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q >= 0 && q <= 1 {
		return q
	}
	return 1
}
