package binaries

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// reportEvery is the time between two reports of a build.
const reportEvery = 15 * time.Second

// progress reads the output of "go build -v", which names each package that it compiles, and
// reports how many there were. Packages in Go's build cache are not named.
type progress struct {
	name   string
	total  int // packages
	report func(string)
	begun  time.Time

	compiled int
	reported time.Time
	line     bytes.Buffer // without its end yet
	rest     bytes.Buffer // lines that name no package: the compiler's errors
}

// Write implements io.Writer.
func (p *progress) Write(text []byte) (int, error) {
	p.line.Write(text)
	for {
		line, err := p.line.ReadString('\n')
		if err != nil {
			p.line.WriteString(line)
			return len(text), nil
		}
		if strings.ContainsAny(line, " :#") {
			p.rest.WriteString(line)
			continue
		}
		p.compiled++
		if now := time.Now(); now.Sub(p.reported) >= reportEvery {
			p.reported = now
			p.report(fmt.Sprintf("%s: compiled %d of at most %d packages in %s", p.name, p.compiled, p.total, now.Sub(p.begun).Round(time.Second)))
		}
	}
}
