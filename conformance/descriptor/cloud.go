// SPDX-License-Identifier: Apache-2.0

package descriptor

import (
	"errors"
	"fmt"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/stockade-dev/stockade/conformance/suite"
)

// CloudKind is what an environment on Google Cloud exports.
const CloudKind = "CloudTarget"

// Cloud says where the targets of an environment on Google Cloud are, and what they
// claim. There is no range and no witness there, so that only questions can be asked.
type Cloud struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Profile    CloudProfile `json:"profile"`
	Cluster    CloudCluster `json:"cluster"`
	// Registry is where the environment's images are.
	Registry string            `json:"registry"`
	Targets  map[string]Target `json:"targets"`
	Controls string            `json:"controls"`
	Features []suite.Feature   `json:"features"`
	// Disruptive is a [Descriptor]'s.
	Disruptive bool `json:"disruptive"`
	// EgressAllow are the hosts that sandboxes may reach.
	EgressAllow []string `json:"egressAllow"`
	// Identity is what programs of a shared server act as; nil is none.
	Identity *CloudIdentity `json:"identity,omitempty"`
}

// CloudProfile is what kind of environment it is.
type CloudProfile struct {
	Name      string `json:"name"`
	Autopilot bool   `json:"autopilot"`
	AllowList bool   `json:"allowList"`
	Perimeter bool   `json:"perimeter"`
	ThrowAway bool   `json:"throwAway"`
}

// CloudCluster is a cluster of GKE, and the host name of its DNS endpoint.
type CloudCluster struct {
	Project  string `json:"project"`
	Location string `json:"location"`
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
}

// CloudIdentity is an account of Google's, and whose tokens it takes.
type CloudIdentity struct {
	Email  string `json:"email"`
	Issuer string `json:"issuer"`
}

// IsCloud tells whether a text describes an environment on Google Cloud.
func IsCloud(doc []byte) bool {
	var what struct {
		Kind string `json:"kind"`
	}
	return yaml.Unmarshal(doc, &what) == nil && what.Kind == CloudKind
}

// DecodeCloud reads and checks the text that describes an environment on Google
// Cloud. A field that is not known is an error, as in [Decode].
func DecodeCloud(doc []byte) (*Cloud, error) {
	var c Cloud
	if err := yaml.UnmarshalStrict(doc, &c); err != nil {
		return nil, err
	}
	switch {
	case c.APIVersion != APIVersion || c.Kind != CloudKind:
		return nil, fmt.Errorf("apiVersion %q and kind %q where %s and %s are expected", c.APIVersion, c.Kind, APIVersion, CloudKind)
	case c.Cluster.Endpoint == "":
		return nil, errors.New("cluster.endpoint must be set: it says which cluster may be asked")
	case len(c.Targets) == 0:
		return nil, errors.New("it names no target")
	}
	for name, t := range c.Targets {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("target %q: %w", name, err)
		}
	}
	return &c, nil
}

// Client reads a kubeconfig, and checks that it leads to the cluster: its current
// context has to name the endpoint, by HTTPS with a certificate that is looked at.
// Nothing is sent.
func (c *Cloud) Client(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	at, err := url.Parse(config.Host)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	case at.Scheme != "https" || at.Host != c.Cluster.Endpoint:
		return nil, fmt.Errorf("the kubeconfig leads to %s, and not to the cluster %s at https://%s", config.Host, c.Cluster.Name, c.Cluster.Endpoint)
	case config.Insecure:
		return nil, errors.New("the kubeconfig takes any certificate for the cluster's")
	}
	return config, nil
}
