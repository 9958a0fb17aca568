package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sacrifice makes this test binary the one that TestProcessesDieWithTheirParent kills.
const sacrifice = "SLUICE_E2E_SACRIFICE"

// However a test ends, it leaves no process behind.
func TestProcessesDieWithTheirParent(t *testing.T) {
	if os.Getenv(sacrifice) != "" {
		haveChild(t)
		return
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), sacrifice+"=yes")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(line))
	must(t, err)
	if !runs(child) {
		t.Errorf("process %d does not run while its parent does", child)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	for deadline := time.Now().Add(time.Minute); runs(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d runs on without its parent", child)
		}
	}
}

func haveChild(t *testing.T) {
	p, err := Start(exec.Command("sleep", "30"))
	must(t, err)
	fmt.Println(p.ID())
	_, _ = io.Copy(io.Discard, os.Stdin) // until killed
}

// runs is false for what is gone and for what has ended and nobody asked about.
func runs(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestEndIsNoticed(t *testing.T) {
	t.Parallel()
	p, err := Start(exec.Command("false"))
	must(t, err)
	<-p.Done()
	if err := p.Err(); err == nil || err.Error() != "exit status 1" {
		t.Errorf("it ended with %v, want exit status 1", err)
	}
	p.Kill() // of what is gone: returns
}

func TestWhatIsNotThereIsNotStarted(t *testing.T) {
	t.Parallel()
	if _, err := Start(exec.Command("/does/not/exist")); err == nil {
		t.Error("no error")
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
