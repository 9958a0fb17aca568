package crowd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// PageBytes is the size of a page that the kernel doesn't hold for a reader who doesn't read it: sockets have some 10 MB.
const PageBytes = 16 << 20

// BesideSilentReaders has clients ask for a page of PageBytes and read none of it, each from each address, and then one of
// another address that reads. It returns this one's page. The server must not cut off silent readers after a time.
func BesideSilentReaders(t *testing.T, address, path string, clients, each int) (page string) {
	t.Helper()
	var silent []*http.Response
	for i := range clients {
		from := net.IPv4(127, 3, 0, byte(1+i/each))
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}).Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("reader %d from %s: %v, %v", i, from, answer, err)
		}
		silent = append(silent, answer) // its page is being written, and stays so
	}
	page = readPage(t, "http://"+address+path)
	for _, answer := range silent {
		if _, err := io.Copy(io.Discard, answer.Body); errors.Is(err, syscall.ECONNRESET) {
			return page
		} else if err != nil {
			t.Errorf("a page that was cut off ends with: %v", err)
		}
	}
	t.Error("no silent reader was cut off")
	return page
}

// readPage asks again if a request waited too long for a place, as it may on a machine that stands still.
func readPage(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	const tries = 10
	for try := 1; ; try++ {
		answer, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode == http.StatusOK {
			return string(text)
		}
		if try == tries {
			t.Fatalf("a client that reads gets %s %.200s", answer.Status, text)
		}
	}
}
