package otlp

import "bytes"

// elementCost is the maximum cost of an array element or object member: a number in a slice that
// has grown.
const elementCost = 16

// maxJSONDepth limits brackets; an attribute value of an exemplar is 20 deep.
const maxJSONDepth = 64

// Data points are objects within ten brackets; their large parts, exemplars and attributes, are
// within twelve.
const pointDepth, partDepth = 10, 12

// objectCost is the maximum cost of an object, by its depth.
func objectCost(depth int) int64 {
	switch {
	case depth <= pointDepth:
		return 256
	case depth <= partDepth:
		return 160
	}
	return 80
}

// decodedSizeJSON counts brackets and commas only; the decoder checks their meaning.
func decodedSizeJSON(body []byte) (int64, error) {
	total, depth := int64(len(body)), 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i += stringEnd(body[i+1:])
		case '{', '[':
			if depth++; depth > maxJSONDepth {
				return 0, errDepth
			}
			total += objectCost(depth)
		case 'n': // null, which can be an empty object
			total += objectCost(depth + 1)
		case '}', ']':
			depth--
		case ',':
			total += elementCost
		}
	}
	return total, nil
}

// stringEnd is the number of bytes to the end of a string, including the quote.
func stringEnd(b []byte) int {
	for i := 0; i < len(b); i++ {
		at := bytes.IndexAny(b[i:], `"\`)
		if at < 0 {
			break
		}
		if i += at; b[i] == '"' {
			return i + 1
		}
		i++ // the escaped character
	}
	return len(b)
}
