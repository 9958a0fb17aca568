package otlp

import "bytes"

// What a JSON value costs at most: an object is perhaps a histogram's data point, and an element a number of a slice that
// has grown.
const (
	objectCost   = 256
	elementCost  = 16
	maxJSONDepth = 64 // a value of an attribute of an exemplar is 20 deep
)

// weighJSON goes by brackets and commas alone: what they mean is the decoder's to find out.
func weighJSON(body []byte) (int64, error) {
	total, depth := int64(len(body)), 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i += stringEnd(body[i+1:])
		case '{', '[':
			total += objectCost
			if depth++; depth > maxJSONDepth {
				return 0, errDepth
			}
		case 'n': // null, which is an empty object where there may be one
			total += objectCost
		case '}', ']':
			depth--
		case ',':
			total += elementCost
		}
	}
	return total, nil
}

// stringEnd is how many bytes there are to the end of a string, its quote included.
func stringEnd(b []byte) int {
	for i := 0; i < len(b); i++ {
		at := bytes.IndexAny(b[i:], `"\`)
		if at < 0 {
			break
		}
		if i += at; b[i] == '"' {
			return i + 1
		}
		i++ // what is escaped
	}
	return len(b)
}
