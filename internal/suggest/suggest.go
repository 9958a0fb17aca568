// Package suggest finds the word that somebody may have meant. It knows neither what the words name
// nor what becomes of the suggestion.
package suggest

import (
	"fmt"
	"strings"
)

// DidYouMean continues an error with the candidate nearest to a word, if one is near.
func DidYouMean(word string, candidates []string) string {
	if best := Nearest(word, candidates); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// maxWord is the longest word that has a suggestion, in bytes: a comparison takes the product of both lengths.
const maxWord = 256

// Nearest is the candidate that is closest to a word; empty: none is close. Close is one edit per
// three letters, or a word that begins or ends one candidate only.
func Nearest(word string, candidates []string) string {
	if word == "" || len(word) > maxWord {
		return ""
	}
	best, least := "", len(word)/3+1
	partly := []string{}
	for _, candidate := range candidates {
		if max(len(word)-len(candidate), len(candidate)-len(word)) <= least { // the least that it takes
			if edits := editDistance(word, candidate); edits < least || edits == least && best == "" {
				best, least = candidate, edits
			}
		}
		if len(word) > 2 && (strings.HasPrefix(candidate, word) || strings.HasSuffix(candidate, word)) {
			partly = append(partly, candidate)
		}
	}
	if best == "" && len(partly) == 1 {
		return partly[0]
	}
	return best
}

// editDistance counts the letters to insert, delete or replace, and the neighbours to swap, that
// turn a into b (optimal string alignment).
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
