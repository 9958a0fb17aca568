package loadtest

import (
	"fmt"
	"strings"
)

// pushRequest is one push of a batch job: three families with # TYPE lines. The label "instance"
// selects the group. The request is prepared once; a push fills in the group and the number, both
// of constant length.
type pushRequest struct {
	text    []byte
	body    int // length of the body
	group   int // offset of the group's digits
	numbers []int
}

// samplesAPush is the number of samples of a pushRequest.
const samplesAPush = 3

const (
	groupDigits  = 7
	numberDigits = 10
)

// newPushRequest prepares a request with space for the group and the number.
func newPushRequest() *pushRequest {
	group, number := strings.Repeat("G", groupDigits), strings.Repeat("N", numberDigits)
	body := "# TYPE batch_records_total counter\nbatch_records_total{stage=\"load\"} " + number + "\n" +
		"# TYPE batch_position gauge\nbatch_position " + number + "\n" +
		"# TYPE batch_duration_seconds gauge\nbatch_duration_seconds{stage=\"load\"} 12.75\n"
	text := fmt.Sprintf("PUT /metrics/job/batch/instance/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain; version=0.0.4\r\n"+
		"Content-Length: %d\r\n\r\n%s", group, len(body), body)
	r := &pushRequest{text: []byte(text), body: len(body), group: strings.Index(text, group)}
	for at := strings.Index(text, number); at >= 0; {
		r.numbers = append(r.numbers, at)
		next := strings.Index(text[at+1:], number)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return r
}

// of returns the request that pushes a number to a group; it is valid until the next call.
func (r *pushRequest) of(group int, number int64) []byte {
	putDigits(r.text[r.group:r.group+groupDigits], int64(group))
	for _, at := range r.numbers {
		putDigits(r.text[at:at+numberDigits], number)
	}
	return r.text
}

func putDigits(into []byte, v int64) {
	for i := len(into) - 1; i >= 0; i-- {
		into[i] = byte('0' + v%10)
		v /= 10
	}
}

// pushTotals are the last number pushed to each group, and the number of pushes.
type pushTotals struct {
	pushed int64
	last   []int64 // by group
}

// firstNumber is the first pushed number; all numbers have the same number of digits.
const firstNumber = 1_000_000_000

// next counts a push, and returns the group, in turn, and the number to push.
func (b *pushTotals) next(groups int) (group int, number int64) {
	if len(b.last) < groups {
		b.last = append(b.last, make([]int64, groups-len(b.last))...)
	}
	group, number = int(b.pushed%int64(groups)), firstNumber+b.pushed
	b.last[group] = number
	b.pushed++
	return group, number
}

// sum returns the sum over all groups.
func (b *pushTotals) sum() (sum int64) {
	for _, number := range b.last {
		sum += number
	}
	return sum
}
