package chart

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var update = flag.Bool("update", false, "write the goldens anew")

// TestGoldens holds what each file of values renders to. Read a golden's difference as an upgrade
// will meet it.
func TestGoldens(t *testing.T) {
	files := valuesFiles(t)
	for name, values := range files {
		t.Run(name, func(t *testing.T) {
			got := maskGenerated(mustRender(t, values))
			golden := filepath.Join(folder, "ci", "golden", name+".yaml")
			if *update {
				must(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			if want := read(t, golden); got != want {
				t.Errorf("%s differs from what is rendered at line %s\nif that is meant: go test ./chart -update", golden, firstDifference(want, got))
			}
		})
	}
	goldens, err := filepath.Glob(filepath.Join(folder, "ci", "golden", "*.yaml"))
	must(t, err)
	for _, golden := range goldens {
		if _, ok := files[strings.TrimSuffix(filepath.Base(golden), ".yaml")]; !ok {
			t.Errorf("%s has no file of values", golden)
		}
	}
}

var generatedSecret = regexp.MustCompile(`(?m)^  (ca\.crt|tls\.crt|tls\.key): (\S+)$`)

// maskGenerated replaces the certificate that is made anew at each rendering, wherever it stands,
// by "generated" in base64. One that is given stays.
func maskGenerated(text string) string {
	for _, found := range generatedSecret.FindAllStringSubmatch(text, -1) {
		text = strings.ReplaceAll(text, found[2], "Z2VuZXJhdGVk")
	}
	return text
}

func firstDifference(want, got string) string {
	wanted, gotten := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range wanted {
		if i >= len(gotten) || wanted[i] != gotten[i] {
			end := min(i+3, len(wanted), len(gotten))
			if end <= i {
				return "(one is longer than the other)"
			}
			return strings.Join(slices.Concat([]string{":"}, wanted[i:end], []string{"--- rendered:"}, gotten[i:end]), "\n")
		}
	}
	return "(one is longer than the other)"
}

func TestLint(t *testing.T) {
	for name, values := range valuesFiles(t) {
		if stdout, stderr, err := helm(t, os.DevNull, "lint", "--strict", folder, "--values", values); err != nil {
			t.Errorf("%s: %v\n%s%s", name, err, stdout, stderr)
		}
	}
}

// TestGeneratedCertificate: every APIService trusts the CA that signed the certificate, for the
// name by which the API server calls, https://SERVICE.NAMESPACE.svc.
func TestGeneratedCertificate(t *testing.T) {
	objects := strictly(t, mustRender(t, "", "tls.generated.days=30"))
	secret := only[*core.Secret](t, objects)
	pair, err := tls.X509KeyPair(secret.Data[core.TLSCertKey], secret.Data[core.TLSPrivateKeyKey])
	must(t, err)
	apis := apiServices(objects)
	if len(apis) != 4 {
		t.Fatalf("%d APIServices: want four", len(apis))
	}
	for _, api := range apis {
		if !bytes.Equal(api.Spec.CABundle, secret.Data["ca.crt"]) {
			t.Errorf("%s trusts another CA than the Secret's", api.Name)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(api.Spec.CABundle) {
			t.Fatalf("%s: caBundle holds no PEM", api.Name)
		}
		host := api.Spec.Service.Name + "." + api.Spec.Service.Namespace + ".svc"
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("%s: as %s: %v", api.Name, host, err)
		}
	}
	if days := time.Until(pair.Leaf.NotAfter).Hours() / 24; days < 29 || days > 31 {
		t.Errorf("valid for %.1f days: want tls.generated.days, 30", days)
	}
}

// TestGeneratedKeys: each certificate that the chart makes is signed by its CA, and both have a key
// whose signatures cost a handshake little.
func TestGeneratedKeys(t *testing.T) {
	made := 0
	for _, object := range strictly(t, mustRender(t, "", "replicas=2,keda.enabled=true,agent.enabled=true")) {
		secret, ok := object.(*core.Secret)
		if !ok {
			continue
		}
		made++
		pair, err := tls.X509KeyPair(secret.Data[core.TLSCertKey], secret.Data[core.TLSPrivateKeyKey])
		must(t, err)
		block, _ := pem.Decode(secret.Data["ca.crt"])
		ca, err := x509.ParseCertificate(block.Bytes)
		must(t, err)
		if err := pair.Leaf.CheckSignatureFrom(ca); err != nil {
			t.Errorf("%s: %v", secret.Name, err)
		}
		for _, one := range []*x509.Certificate{pair.Leaf, ca} {
			if one.PublicKeyAlgorithm != x509.ECDSA {
				t.Errorf("%s: the key of %s is %s", secret.Name, one.Subject.CommonName, one.PublicKeyAlgorithm)
			}
		}
	}
	if made != 5 {
		t.Errorf("%d certificates, want those of the APIs, the agents and the replicas, and two of KEDA", made)
	}
}

func apiServices(objects []runtime.Object) (all []*registration.APIService) {
	for _, object := range objects {
		if api, ok := object.(*registration.APIService); ok {
			all = append(all, api)
		}
	}
	return all
}
