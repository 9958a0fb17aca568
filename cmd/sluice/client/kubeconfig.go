package client

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigName is the file in the data folder by which kubectl and the clients reach a standalone Sluice.
const KubeconfigName = "kubeconfig"

// AnyToken is the token in that file, which keeps kubectl from asking for a password. A standalone
// server ignores it. It tells such a file from a cluster's.
const AnyToken = "anybody"

// restConfig reads the applicable kubeconfig and overrides it by flags. With --server and
// --insecure-skip-tls-verify no kubeconfig is needed. The namespace is that of the kubeconfig's
// context, if it has one.
func (o *apiOptions) restConfig() (cfg *rest.Config, namespace string, err error) {
	loaded, missing := o.load()
	cfg = &rest.Config{}
	if missing != nil && (o.server == "" || !o.insecure) {
		return nil, "", missing
	} else if missing == nil {
		cfg, err = loaded.config.ClientConfig()
		if err != nil {
			return nil, "", fmt.Errorf("kubeconfig %s: %w", strings.Join(loaded.files, ", "), err)
		}
		if raw, err := loaded.config.RawConfig(); err == nil {
			namespace = namespaceOfContext(raw, o.context)
		}
	}
	if o.server != "" {
		cfg.Host = o.server
	}
	if o.insecure {
		cfg.Insecure, cfg.CAData, cfg.CAFile = true, nil, ""
	}
	return cfg, namespace, nil
}

func namespaceOfContext(raw clientcmdapi.Config, context string) string {
	if context == "" {
		context = raw.CurrentContext
	}
	if c := raw.Contexts[context]; c != nil {
		return c.Namespace
	}
	return ""
}

// kubeconfig is the merge of one or more files, each of which is read once.
type kubeconfig struct {
	files  []string
	config clientcmd.ClientConfig
}

func (o *apiOptions) kubeconfigOf(files ...string) *kubeconfig {
	return &kubeconfig{files, clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{Precedence: files}, &clientcmd.ConfigOverrides{CurrentContext: o.context})}
}

// load finds the kubeconfig: --kubeconfig, else the data folder's, else $KUBECONFIG, else ~/.kube/config,
// as kubectl does. With --data-dir, the last two are not read. The error names the places.
func (o *apiOptions) load() (*kubeconfig, error) {
	const wanted = "must have --data-dir of a Sluice that runs here, --kubeconfig with a file that this user may read, " +
		"or --server with --insecure-skip-tls-verify"
	if o.kubeconfig != "" {
		if hidden := hiddenBy(o.kubeconfig); hidden != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w; must be a file that this user may read", o.kubeconfig, hidden)
		}
		if _, err := os.Stat(o.kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig %s does not exist; %s", o.kubeconfig, wanted)
		}
		return o.kubeconfigOf(o.kubeconfig), nil
	}
	local, err := o.ofDataFolder()
	if err == nil {
		return local, nil
	}
	if o.dataDirSet {
		return nil, fmt.Errorf("%w; %s", err, wanted)
	}
	inherited := cmp.Or(os.Getenv(clientcmd.RecommendedConfigPathEnvVar), homeKubeconfig())
	if inherited == "" {
		return nil, fmt.Errorf("no kubeconfig: %w; ~/.kube/config does not exist, and $KUBECONFIG is empty; %s", err, wanted)
	}
	var there []string
	for _, one := range filepath.SplitList(inherited) {
		if _, err := os.Stat(one); err == nil {
			there = append(there, one)
		}
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("no kubeconfig: %w; $KUBECONFIG (%s) does not exist; %s", err, inherited, wanted)
	}
	return o.kubeconfigOf(there...), nil
}

// ofDataFolder is the kubeconfig of the data folder. Without --data-dir that is a folder in the current
// one, which may be a stranger's, as of a cloned repository: the kubeconfig must be one that a standalone
// server writes. In no case may it run a command.
func (o *apiOptions) ofDataFolder() (*kubeconfig, error) {
	file := filepath.Join(o.dataDir, KubeconfigName)
	if hidden := hiddenBy(file); hidden != nil {
		return nil, fmt.Errorf("--data-dir %s: cannot look for a %s: %w", o.dataDir, KubeconfigName, hidden)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("--data-dir %s has no %s", o.dataDir, KubeconfigName)
	}
	local := o.kubeconfigOf(file)
	raw, err := local.config.RawConfig()
	switch {
	case err != nil:
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	case runsCommands(raw):
		return nil, fmt.Errorf("%s runs commands (exec or auth-provider), so only --kubeconfig reads it", file)
	case !o.dataDirSet && !isStandalones(raw):
		return nil, fmt.Errorf("%s is not of a standalone Sluice on a loopback address, so only --data-dir reads it", file)
	}
	return local, nil
}

// runsCommands reports whether a user of a kubeconfig logs in by a program.
func runsCommands(raw clientcmdapi.Config) bool {
	for _, user := range raw.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return true
		}
	}
	return false
}

// isStandalones reports whether a kubeconfig is as a standalone server writes it: it has servers on
// loopback addresses alone, and of users the token alone that anybody has.
func isStandalones(raw clientcmdapi.Config) bool {
	for _, cluster := range raw.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil || server.Scheme != "https" || !net.ParseIP(server.Hostname()).IsLoopback() || cluster.ProxyURL != "" {
			return false
		}
	}
	for _, user := range raw.AuthInfos {
		bare := *user
		bare.LocationOfOrigin, bare.Extensions = "", nil
		if !reflect.DeepEqual(bare, clientcmdapi.AuthInfo{Token: AnyToken}) {
			return false
		}
	}
	return len(raw.Clusters) > 0 && len(raw.AuthInfos) > 0
}

// homeKubeconfig is kubectl's file in the user's home; empty: there is none.
func homeKubeconfig() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	file := filepath.Join(home, clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// hiddenBy is the reason why a file's existence cannot be checked; nil if it can. Most often the
// folder is another user's, such as a server's data folder.
func hiddenBy(path string) error {
	_, err := os.Stat(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	var whole *fs.PathError
	if errors.As(err, &whole) {
		return whole.Err
	}
	return err
}
