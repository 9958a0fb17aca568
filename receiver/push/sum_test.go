package push

import (
	"strings"
	"testing"
)

// ?sum=true merges what a GET finds to one item.
func TestSum(t *testing.T) {
	h := start(t)
	for _, push := range [][2]string{
		{"/v1/external/depth?type=gauge&label=queue=a&label=site=x", "2"}, {"/v1/external/depth?type=gauge&label=queue=b&label=site=x", "3.5"},
		{"/v1/namespaces/shop/pods/web-1/busy?type=gauge", "1"}, {"/v1/namespaces/shop/pods/web-2/busy?type=gauge", "4"},
	} {
		if status, answer := h.do("PUT", push[0], push[1]); status != 200 {
			t.Fatal(status, answer)
		}
	}
	for path, c := range map[string]struct {
		status int
		says   []string
	}{
		"/v1/external/depth?sum=true":                      {200, []string{`"value":5.5,`, `"labels":{"site":"x"}`}},
		"/v1/external/depth?sum=true&label=queue=a":        {200, []string{`"value":2,`, `"labels":{"queue":"a","site":"x"}`}},
		"/v1/external/depth?sum=false":                     {200, []string{`"value":2,`, `"value":3.5,`}},
		"/v1/external/depth:total?sum=true":                {200, []string{`"value":5.5,`}},
		"/v1/external/depth:p95?sum=true":                  {400, []string{"do not add up"}},
		"/v1/namespaces/shop/pods/*/busy?sum=true":         {200, []string{`"value":5,`, `"name":"*"`}},
		"/v1/namespaces/shop/pods/*/busy:mean?sum=true":    {400, []string{"do not add up"}},
		"/v1/namespaces/shop/pods/web-1/busy:max?sum=true": {200, []string{`"value":1,`, `"name":"web-1"`}},
		"/v1/external/depth?sum=yes":                       {400, []string{"must be true or false"}},
	} {
		status, answer := h.do("GET", path, "")
		if status != c.status || c.status == 200 && strings.Count(answer, `"value"`) != map[bool]int{true: 2, false: 1}[strings.Contains(path, "false")] {
			t.Errorf("GET %s: %d %s", path, status, answer)
		}
		for _, says := range c.says {
			if !strings.Contains(answer, says) {
				t.Errorf("GET %s: %s, want %s", path, answer, says)
			}
		}
	}
}
