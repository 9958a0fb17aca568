package loadtest

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func fakeAPIServerOf(t *testing.T, pods podSet) *fakeAPIServer {
	t.Helper()
	s, err := startStandIn(pods)
	must(t, err)
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStandInListsPods(t *testing.T) {
	s := fakeAPIServerOf(t, podSet{namespaces: 2, each: 3, selected: 1})
	resp, err := http.Get("http://" + s.address + "/api/v1/pods")
	must(t, err)
	defer resp.Body.Close()
	var list struct {
		Kind  string
		Items []struct {
			Metadata struct {
				Namespace, Name, UID string
				Labels               map[string]string
			}
			Status struct{ Phase, PodIP string }
		}
	}
	must(t, json.NewDecoder(resp.Body).Decode(&list))
	uids, addresses, selected := map[string]bool{}, map[string]bool{}, 0
	for _, pod := range list.Items {
		uids[pod.Metadata.UID], addresses[pod.Status.PodIP] = true, true
		if pod.Metadata.Labels["app"] == "web" {
			selected++
		}
	}
	if list.Kind != "PodList" || len(list.Items) != 6 || len(uids) != 6 || len(addresses) != 6 || selected != 2 {
		t.Errorf("%+v: want 6 pods, each with its own UID and address, of which 2 are selected", list)
	}
}

// The watch of a list that is streamed ends with a bookmark that says so, and stays open
// (KEP-3157).
func TestStandInStreamsPods(t *testing.T) {
	s := fakeAPIServerOf(t, podSet{namespaces: 1, each: 2, selected: 2})
	resp, err := http.Get("http://" + s.address + "/api/v1/pods?watch=true&sendInitialEvents=true")
	must(t, err)
	defer resp.Body.Close()
	var types []string
	for lines := bufio.NewScanner(resp.Body); len(types) < 3 && lines.Scan(); {
		var event struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct{ Annotations map[string]string }
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil || event.Object.Kind != "Pod" {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		types = append(types, event.Type+event.Object.Metadata.Annotations["k8s.io/initial-events-end"])
	}
	if got := strings.Join(types, " "); got != "ADDED ADDED BOOKMARKtrue" {
		t.Errorf("events %s", got)
	}
}

func TestPodsAreOfThisMachine(t *testing.T) {
	pods := podSet{namespaces: 150, each: 1000}
	for pod, want := range map[int]string{0: "127.1.0.1", 254: "127.1.0.255", 149_999: "127.3.73.240"} {
		if got := pods.address(pod).String(); got != want {
			t.Errorf("pod %d is at %s, want %s", pod, got, want)
		}
	}
	if pods.namespace(149_999) != "load-149" || pods.name(149_999) != "web-999" {
		t.Errorf("the last pod is %s/%s", pods.namespace(149_999), pods.name(149_999))
	}
}
