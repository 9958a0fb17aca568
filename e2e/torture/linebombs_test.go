package torture

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sluice-metrics/sluice/e2e/server"
)

// lineBombs are for the StatsD sockets, which answer nothing. A good line follows each, so the
// ledger is not empty.
func lineBombs() []bomb {
	texts := map[string]string{
		"an event that lies about its lengths": "_e{4294967295,4294967295}:a|b\n",
		"an event of negative lengths":         "_e{-1,-1}:a|b\n",
		"events":                               strings.Repeat("_e{1,1}:a|b\n", 100_000),
		"service checks":                       strings.Repeat("_sc|a|0\n", 100_000),
		"10,000 tags":                          "jobs:1|c|#" + strings.Repeat("a:b,", 10_000) + "\n",
		"packed values":                        "jobs" + strings.Repeat(":1", 100_000) + "|c\n",
		"huge numbers":                         "jobs:" + strings.Repeat("9", 100_000) + "|c\njobs:1e999999999|g\njobs:1|ms|@1e-300\n",
		"binary zeros":                         strings.Repeat("\x00", 1<<20) + "\n",
		"empty lines":                          strings.Repeat("\n", 4<<20),
		"colons":                               strings.Repeat(":", 1<<20) + "\n",
	}
	bombs := []bomb{
		{"an endless line by TCP", func(s *server.Server) string {
			return sendLines("tcp", s.TCP, io.LimitReader(repeating("jobs"), 64*mebibyte))
		}},
		{"packets of 4 GiB by a Unix stream", func(s *server.Server) string {
			return sendLines("unix", s.Unix, strings.NewReader("\xff\xff\xff\xffjobs:1|c\n"))
		}},
		{"empty packets by a Unix stream", func(s *server.Server) string {
			return sendLines("unix", s.Unix, strings.NewReader(strings.Repeat("\x00\x00\x00\x00", 100_000)))
		}},
		{"a good packet by a Unix stream", func(s *server.Server) string {
			line := "jobs:1|c\n"
			return sendLines("unix", s.Unix, strings.NewReader(string(binary.LittleEndian.AppendUint32(nil, uint32(len(line))))+line))
		}},
	}
	for name, text := range texts {
		bombs = append(bombs,
			bomb{name + " by TCP", func(s *server.Server) string { return sendLines("tcp", s.TCP, strings.NewReader(text+"jobs:1|c\n")) }},
			bomb{name + " by UDP", func(s *server.Server) string {
				return sendLines("udp", s.UDP, strings.NewReader(text[:min(len(text), 60<<10)]+"\njobs:1|c\n"))
			}})
	}
	return bombs
}

// sendLines sends, and waits until the server has read all or closed the connection.
func sendLines(network, address string, lines io.Reader) (fault string) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.Copy(conn, lines); err != nil {
		return closedOr(err)
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && network != "udp" {
		_ = half.CloseWrite() // it may have been closed
		if _, err := io.Copy(io.Discard, conn); err != nil {
			return closedOr(err)
		}
	}
	return ""
}
