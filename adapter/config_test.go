package adapter

import (
	"strings"
	"testing"
	"time"
)

func TestConfigValidate(t *testing.T) {
	must(t, DefaultConfig().Validate())
	err := Config{Address: "nowhere", CertFile: "a"}.Validate()
	for _, field := range []string{"Address", "CertFile", "KeyFile", "CustomMetrics", "ExternalMetrics", "DiscoveryLimit", "MaxInFlight", "RequestTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
	hasty := DefaultConfig()
	hasty.ShutdownDelay = -time.Second
	if err := hasty.Validate(); err == nil || !strings.Contains(err.Error(), "ShutdownDelay") {
		t.Errorf("%v", err)
	}
	bad := DefaultConfig()
	bad.Address = "127.0.0.1:none"
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "Address") {
		t.Errorf("%v", err)
	}
}
