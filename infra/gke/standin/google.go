// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

// reservedKey is the label and the taint that GKE sets on gVisor nodes.
const reservedKey = "sandbox.gke.io/runtime"

// project and place return where a resource goes: where it says, or where the
// provider is configured to.
func (c *Cloud) project(v values) string {
	if p := text(v, "project"); p != "" {
		return p
	}
	return c.opts.Project
}

func (c *Cloud) place(v values, property string) string {
	if p := text(v, property); p != "" {
		return p
	}
	return c.region
}

// last is the last part of a name, a path or a link.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// full makes a path out of a name, a path or a link.
func full(ref, prefix string) string {
	if ref == "" || strings.HasPrefix(ref, "projects/") {
		return ref
	}
	if i := strings.Index(ref, "/projects/"); i >= 0 {
		return ref[i+1:]
	}
	return prefix + ref
}

func global(collection string) func(*Cloud, values) string {
	return func(c *Cloud, v values) string {
		return fmt.Sprintf("projects/%s/global/%s/%s", c.project(v), collection, text(v, "name"))
	}
}

func regional(collection string) func(*Cloud, values) string {
	return func(c *Cloud, v values) string {
		return fmt.Sprintf("projects/%s/regions/%s/%s/%s", c.project(v), c.place(v, "region"), collection, text(v, "name"))
	}
}

func (c *Cloud) network(ref string) string {
	return full(ref, "projects/"+c.opts.Project+"/global/networks/")
}

// subnet takes the region from the resource that names it.
func (c *Cloud) subnet(ref string, by values) string {
	region := c.place(by, "region")
	if l := text(by, "location"); l != "" {
		region = regionOf(l)
	}
	return full(ref, "projects/"+c.opts.Project+"/regions/"+region+"/subnetworks/")
}

// regionOf cuts the zone off a location, "europe-west1-b".
func regionOf(location string) string {
	if parts := strings.Split(location, "-"); len(parts) == 3 {
		return parts[0] + "-" + parts[1]
	}
	return location
}

func (c *Cloud) router(v values) string {
	return full(text(v, "router"), "projects/"+c.project(v)+"/regions/"+c.place(v, "region")+"/routers/")
}

func (c *Cloud) cluster(v values) string {
	return full(text(v, "cluster"), "projects/"+c.project(v)+"/locations/"+c.place(v, "location")+"/clusters/")
}

func (c *Cloud) zone(v values) string {
	return full(text(v, "managedZone"), "projects/"+c.project(v)+"/managedZones/")
}

func (c *Cloud) repository(v values) string {
	return full(text(v, "repository"), "projects/"+c.project(v)+"/locations/"+c.place(v, "location")+"/repositories/")
}

func (c *Cloud) email(v values) string {
	return text(v, "accountId") + "@" + c.project(v) + ".iam.gserviceaccount.com"
}

// needs refuses a reference to what does not exist.
func (c *Cloud) needs(typ, id string) error {
	if c.get(typ, id) == nil {
		return missing(id)
	}
	return nil
}

func inUse(r, by *record) error {
	return &apiError{400, "resourceInUseByAnotherResource", fmt.Sprintf("The resource '%s' is already being used by '%s'", r.ID, by.ID)}
}

// acceptMember refuses a grant to somebody who does not exist.
func acceptMember(c *Cloud, _ string, v values) error {
	if id := text(v, "serviceAccountId"); id != "" {
		if err := c.needs(typeAccount, id); err != nil {
			return err
		}
	}
	if has(v, "repository") {
		if err := c.needs(typeRepository, c.repository(v)); err != nil {
			return err
		}
	}
	what, who, _ := strings.Cut(text(v, "member"), ":")
	pool, _, inPool := strings.Cut(who, "[")
	_, path, direct := strings.Cut(text(v, "member"), "/workloadIdentityPools/")
	if direct {
		pool, _, inPool = strings.Cut(path, "/")
	}
	switch {
	case inPool && strings.HasSuffix(pool, ".svc.id.goog"):
		// It comes with the first cluster, not with the project.
		if !c.state.Pools[pool] {
			return refuse("Identity Pool does not exist (%s). Please check that you specified a valid resource name", pool)
		}
	case what == "serviceAccount" && strings.HasSuffix(who, "@"+c.opts.Project+".iam.gserviceaccount.com"):
		if c.get(typeAccount, "projects/"+c.opts.Project+"/serviceAccounts/"+who) == nil {
			return refuse("Service account %s does not exist", who)
		}
	}
	return nil
}

// span is a range of addresses and whose it is.
type span struct {
	prefix netip.Prefix
	whose  string
}

// spans returns the ranges of one subnet. Google wants a range without bits
// beyond its length.
func spans(id string, v values) (out []span, err error) {
	add := func(s, whose string) error {
		p, err := netip.ParsePrefix(s)
		if err != nil || p.Masked() != p {
			return refuse("Invalid IPCidrRange: %q", s)
		}
		for _, other := range out {
			if other.prefix.Overlaps(p) {
				return refuse("Invalid IPCidrRange: %s conflicts with %s of %s", p, other.prefix, other.whose)
			}
		}
		out = append(out, span{p, whose})
		return nil
	}
	if err := add(text(v, "ipCidrRange"), "subnetwork "+last(id)); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, second := range objects(v, "secondaryIpRanges") {
		name := text(second, "rangeName")
		if names[name] {
			return nil, refuse("Secondary range %q is named twice", name)
		}
		names[name] = true
		if err := add(text(second, "ipCidrRange"), "range "+name+" of subnetwork "+last(id)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func acceptSubnet(c *Cloud, id string, v values) error {
	network := c.network(text(v, "network"))
	if err := c.needs(typeNetwork, network); err != nil {
		return err
	}
	mine, err := spans(id, v)
	if err != nil {
		return err
	}
	for _, r := range c.all(typeSubnet) {
		if r.ID == id || c.network(text(r.Inputs, "network")) != network {
			continue
		}
		theirs, err := spans(r.ID, r.Inputs)
		if err != nil {
			return err
		}
		for _, a := range mine {
			for _, b := range theirs {
				if a.prefix.Overlaps(b.prefix) {
					return refuse("Invalid IPCidrRange: %s conflicts with %s of %s", a.prefix, b.prefix, b.whose)
				}
			}
		}
	}
	return nil
}

func acceptNat(c *Cloud, _ string, v values) error {
	if err := c.needs(typeRouter, c.router(v)); err != nil {
		return err
	}
	subnets := objects(v, "subnetworks")
	if listed := text(v, "sourceSubnetworkIpRangesToNat") == "LIST_OF_SUBNETWORKS"; listed != (len(subnets) > 0) {
		return refuse("Subnetworks are to be named with LIST_OF_SUBNETWORKS, and only then")
	}
	for _, s := range subnets {
		id := c.subnet(text(s, "name"), v)
		if err := c.needs(typeSubnet, id); err != nil {
			return err
		}
		if err := hasRanges(c.get(typeSubnet, id), texts(s, "secondaryIpRangeNames")...); err != nil {
			return err
		}
	}
	if manual := text(v, "natIpAllocateOption") == "MANUAL_ONLY"; manual != (len(list(v, "natIps")) > 0) {
		return refuse("NAT addresses are to be named with MANUAL_ONLY, and only then")
	}
	return nil
}

// hasRanges refuses names of secondary ranges that the subnet does not have.
func hasRanges(subnet *record, names ...string) error {
	for _, name := range names {
		if name != "" && !slices.ContainsFunc(objects(subnet.Inputs, "secondaryIpRanges"), func(s values) bool { return text(s, "rangeName") == name }) {
			return refuse("Secondary range %q does not exist in subnetwork %q", name, last(subnet.ID))
		}
	}
	return nil
}

var ports = regexp.MustCompile(`^[0-9]{1,5}(-[0-9]{1,5})?$`)

func acceptFirewall(c *Cloud, _ string, v values) error {
	if err := c.needs(typeNetwork, c.network(text(v, "network"))); err != nil {
		return err
	}
	egress := text(v, "direction") == "EGRESS"
	for _, path := range []string{"sourceRanges", "destinationRanges"} {
		for _, s := range texts(v, path) {
			if p, err := netip.ParsePrefix(s); err != nil || p.Masked() != p {
				return refuse("Invalid value for field '%s': '%s' is not an IP range", path, s)
			}
		}
	}
	rules := slices.Concat(objects(v, "allows"), objects(v, "denies"))
	switch n := number(v, "priority"); {
	case n < 0 || n > 65535:
		return refuse("Invalid value for field 'priority': %v must be between 0 and 65535", n)
	case len(rules) == 0:
		return refuse("A firewall rule must allow or deny something")
	case egress && (has(v, "sourceRanges") || has(v, "sourceTags") || has(v, "sourceServiceAccounts")):
		return refuse("A firewall rule for EGRESS cannot have sources")
	}
	for _, r := range rules {
		protocol := text(r, "protocol")
		for _, p := range texts(r, "ports") {
			switch {
			case !ports.MatchString(p):
				return refuse("Invalid value for field 'ports': '%s'", p)
			case !slices.Contains([]string{"tcp", "udp", "sctp", "6", "17", "132"}, strings.ToLower(protocol)):
				return refuse("Ports are not for protocol %q", protocol)
			}
		}
	}
	return nil
}

func acceptZone(c *Cloud, _ string, v values) error {
	if text(v, "visibility") != "private" && has(v, "privateVisibilityConfig") {
		return refuse("privateVisibilityConfig is for private zones")
	}
	for _, n := range objects(v, "privateVisibilityConfig.networks") {
		if err := c.needs(typeNetwork, c.network(text(n, "networkUrl"))); err != nil {
			return err
		}
	}
	return nil
}

func acceptRecord(c *Cloud, id string, v values) error {
	zone := c.get(typeZone, c.zone(v))
	if zone == nil {
		return missing(c.zone(v))
	}
	apex, name, typ := text(zone.Inputs, "dnsName"), text(v, "name"), text(v, "type")
	switch {
	case name != apex && !strings.HasSuffix(name, "."+apex):
		return refuse("'%s' is not within the zone '%s'", name, apex)
	case typ == "CNAME" && name == apex:
		return refuse("A CNAME cannot stand at the apex of the zone '%s'", apex)
	case typ == "CNAME" && len(list(v, "rrdatas")) > 1:
		return refuse("A CNAME leads to one name")
	}
	for _, r := range c.all(typeRecord) {
		if r.ID != id && c.zone(r.Inputs) == zone.ID && text(r.Inputs, "name") == name && (typ == "CNAME") != (text(r.Inputs, "type") == "CNAME") {
			return refuse("A CNAME cannot stand beside other records of '%s'", name)
		}
	}
	for _, data := range texts(v, "rrdatas") {
		switch a, err := netip.ParseAddr(data); {
		case typ == "A" && (err != nil || !a.Is4()), typ == "AAAA" && (err != nil || !a.Is6()):
			return refuse("'%s' is not data for a record of type %s", data, typ)
		case typ == "CNAME" && !strings.HasSuffix(data, "."):
			return refuse("'%s' must end with a dot", data)
		}
	}
	return nil
}

func checkCluster(v values) (out []failure) {
	if daily, recurring := has(v, "maintenancePolicy.dailyMaintenanceWindow"), has(v, "maintenancePolicy.recurringWindow"); daily && recurring {
		out = append(out, failure{"maintenancePolicy", "it has two windows"})
	}
	for _, path := range []string{"maintenancePolicy.recurringWindow.startTime", "maintenancePolicy.recurringWindow.endTime"} {
		if s := text(v, path); s != "" {
			if _, err := time.Parse(time.RFC3339, s); err != nil {
				out = append(out, failure{path, fmt.Sprintf("%.40q is not a time (RFC 3339)", s)})
			}
		}
	}
	return out
}

func acceptCluster(c *Cloud, id string, v values) error {
	network := c.network(text(v, "network"))
	if network == "" {
		network = c.network("default")
	}
	if err := c.needs(typeNetwork, network); err != nil {
		return err
	}
	subnet := c.get(typeSubnet, c.subnet(text(v, "subnetwork"), v))
	if subnet == nil {
		return missing(c.subnet(text(v, "subnetwork"), v))
	}
	if c.network(text(subnet.Inputs, "network")) != network {
		return refuse("Subnetwork '%s' is not in network '%s'", subnet.ID, network)
	}
	if err := hasRanges(subnet, text(v, "ipAllocationPolicy.clusterSecondaryRangeName"), text(v, "ipAllocationPolicy.servicesSecondaryRangeName")); err != nil {
		return err
	}
	if err := c.acceptMasterRange(network, text(v, "privateClusterConfig.masterIpv4CidrBlock")); err != nil {
		return err
	}
	autopilot, advanced := flag(v, "enableAutopilot"), text(v, "datapathProvider") == "ADVANCED_DATAPATH"
	pool := text(v, "workloadIdentityConfig.workloadPool")
	switch {
	case flag(v, "networkPolicy.enabled") && advanced:
		return refuse("Network policy enforcement cannot be enabled with Dataplane V2, which always has it")
	case flag(v, "enableFqdnNetworkPolicy") && !advanced && !autopilot:
		return refuse("FQDN network policy requires Dataplane V2")
	case flag(v, "enableCiliumClusterwideNetworkPolicy") && !advanced && !autopilot:
		return refuse("Cilium clusterwide network policy requires Dataplane V2")
	case flag(v, "enableFqdnNetworkPolicy") && text(v, "inTransitEncryptionConfig") == transparentEncryption:
		return refuse("FQDN network policy is not compatible with inter-node transparent encryption")
	case has(v, "nodeConfig.sandboxConfig"):
		return refuse("GKE Sandbox cannot be enabled on the default node pool")
	case !autopilot && number(v, "initialNodeCount") < 1 && len(list(v, "nodePools")) == 0:
		return refuse("Cluster.initial_node_count must be greater than zero")
	case pool != "" && pool != c.project(v)+".svc.id.goog":
		return refuse("Workload pool '%s' is not that of the project", pool)
	case text(v, "binaryAuthorization.evaluationMode") == "PROJECT_SINGLETON_POLICY_ENFORCE" && !c.state.Services[apiBinauthz]:
		return c.off(apiBinauthz)
	}
	if err := acceptReserved(v); err != nil {
		return err
	}
	if err := c.acceptAccount(text(v, "clusterAutoscaling.autoProvisioningDefaults.serviceAccount")); err != nil {
		return err
	}
	if err := c.acceptAccount(text(v, "nodeConfig.serviceAccount")); err != nil {
		return err
	}
	return acceptWindow(v)
}

const transparentEncryption = "IN_TRANSIT_ENCRYPTION_INTER_NODE_TRANSPARENT"

// acceptMasterRange refuses a range of the control plane that is not of 16
// addresses, or that somebody else in the network has.
func (c *Cloud) acceptMasterRange(network, block string) error {
	if block == "" {
		return nil
	}
	p, err := netip.ParsePrefix(block)
	if err != nil || p.Bits() != 28 || p.Masked() != p {
		return refuse("Invalid master_ipv4_cidr_block: %q must be a /28", block)
	}
	for _, r := range c.all(typeSubnet) {
		if c.network(text(r.Inputs, "network")) != network {
			continue
		}
		theirs, err := spans(r.ID, r.Inputs)
		if err != nil {
			return err
		}
		for _, s := range theirs {
			if s.prefix.Overlaps(p) {
				return refuse("The given master_ipv4_cidr %s overlaps with %s of %s", p, s.prefix, s.whose)
			}
		}
	}
	return nil
}

// acceptWindow refuses a maintenance window of less than four hours.
func acceptWindow(v values) error {
	const window = "maintenancePolicy.recurringWindow"
	if !has(v, window) {
		return nil
	}
	start, err1 := time.Parse(time.RFC3339, text(v, window+".startTime"))
	end, err2 := time.Parse(time.RFC3339, text(v, window+".endTime"))
	if err1 != nil || err2 != nil || end.Sub(start) < 4*time.Hour || end.Sub(start) > 24*time.Hour {
		return refuse("A maintenance window has 4 to 24 hours")
	}
	if !strings.HasPrefix(text(v, window+".recurrence"), "FREQ=") {
		return refuse("Invalid recurrence %q", text(v, window+".recurrence"))
	}
	return nil
}

// acceptAccount refuses nodes that would run as an account that is not there.
func (c *Cloud) acceptAccount(email string) error {
	if strings.HasSuffix(email, "@"+c.opts.Project+".iam.gserviceaccount.com") && c.get(typeAccount, "projects/"+c.opts.Project+"/serviceAccounts/"+email) == nil {
		return refuse("The service account %s does not exist", email)
	}
	return nil
}

func keepCluster(c *Cloud, r *record) error {
	// This one is the provider's refusal, not Google's.
	if flag(r.Inputs, "deletionProtection") {
		return fmt.Errorf("cannot destroy cluster %s: deletionProtection is on; set it to false and apply that first", last(r.ID))
	}
	return nil
}

func sandboxed(v values) bool { return has(v, "nodeConfig.sandboxConfig") }

func acceptPool(c *Cloud, id string, v values) error {
	cluster := c.get(typeCluster, c.cluster(v))
	if cluster == nil {
		return missing(c.cluster(v))
	}
	if flag(cluster.Inputs, "enableAutopilot") {
		return refuse("Autopilot clusters do not support node pools")
	}
	if err := acceptReserved(v); err != nil {
		return err
	}
	if sandboxed(v) {
		if err := c.acceptSandbox(cluster, id, v); err != nil {
			return err
		}
	}
	n := func(path string) float64 { return number(v, "autoscaling."+path) }
	perZone, total := has(v, "autoscaling.maxNodeCount"), has(v, "autoscaling.totalMaxNodeCount")
	switch pids := number(v, "nodeConfig.kubeletConfig.podPidsLimit"); {
	case pids != 0 && (pids < 1024 || pids > 4194304):
		return refuse("Invalid podPidsLimit %v: must be between 1024 and 4194304", pids)
	case text(v, "nodeConfig.workloadMetadataConfig.mode") == "GKE_METADATA" && !has(cluster.Inputs, "workloadIdentityConfig.workloadPool"):
		return refuse("The GKE metadata server requires Workload Identity on the cluster")
	case hyperdiskOnly.MatchString(text(v, "nodeConfig.machineType")) && strings.HasPrefix(text(v, "nodeConfig.diskType"), "pd-"):
		return refuse("%s disk type cannot be used by %s machine type", text(v, "nodeConfig.diskType"), text(v, "nodeConfig.machineType"))
	case has(v, "autoscaling") && perZone == total:
		return refuse("Autoscaling has limits either for each zone or in total")
	case n("minNodeCount") > n("maxNodeCount"), n("totalMinNodeCount") > n("totalMaxNodeCount"):
		return refuse("Autoscaling cannot have a minimum above its maximum")
	case channel(cluster.Inputs) && has(v, "management") && !(flag(v, "management.autoUpgrade") && flag(v, "management.autoRepair")):
		return refuse("Auto_upgrade and auto_repair must be true when a release channel is set")
	}
	return c.acceptAccount(text(v, "nodeConfig.serviceAccount"))
}

// hyperdiskOnly are machine types that take no Persistent Disk; there are more of them.
var hyperdiskOnly = regexp.MustCompile(`^(n4|c4)`)

func channel(v values) bool {
	ch := text(v, "releaseChannel.channel")
	return ch != "" && ch != "UNSPECIFIED"
}

// acceptReserved refuses what GKE keeps for itself on nodes of any kind.
func acceptReserved(v values) error {
	_, label := raw(v, "nodeConfig.labels").(map[string]any)
	if label && raw(v, "nodeConfig.labels").(map[string]any)[reservedKey] != nil {
		return refuse("Label key %s is reserved for GKE Sandbox and must not be set", reservedKey)
	}
	for _, t := range objects(v, "nodeConfig.taints") {
		if text(t, "key") == reservedKey {
			return refuse("Taint key %s is reserved for GKE Sandbox and must not be set", reservedKey)
		}
	}
	return nil
}

// acceptSandbox is what GKE asks of a pool with gVisor.
func (c *Cloud) acceptSandbox(cluster *record, id string, v values) error {
	if image := text(v, "nodeConfig.imageType"); !strings.EqualFold(image, "COS_CONTAINERD") {
		return refuse("GKE Sandbox requires the node image COS_CONTAINERD, not %q", image)
	}
	// GKE's own Pods do not run under gVisor.
	if !flag(cluster.Inputs, "removeDefaultNodePool") {
		return nil
	}
	for _, p := range c.all(typePool) {
		if p.ID != id && c.cluster(p.Inputs) == cluster.ID && !sandboxed(p.Inputs) {
			return nil
		}
	}
	return refuse("GKE Sandbox cannot be enabled on the only node pool of a cluster")
}

func acceptLevel(_ *Cloud, id string, v values) error {
	if !strings.HasPrefix(id, text(v, "parent")+"/accessLevels/") {
		return refuse("Access level '%s' is not within '%s'", id, text(v, "parent"))
	}
	for _, condition := range objects(v, "basic.conditions") {
		for _, s := range texts(condition, "ipSubnetworks") {
			if p, err := netip.ParsePrefix(s); err != nil || p.Masked() != p || p.Addr().IsPrivate() {
				return refuse("Invalid ipSubnetworks: %q is not a public range", s)
			}
		}
		for _, m := range texts(condition, "members") {
			if what, _, ok := strings.Cut(m, ":"); !ok || what != "user" && what != "serviceAccount" {
				return refuse("Invalid members: %q is neither user:… nor serviceAccount:…", m)
			}
		}
		if len(condition) == 0 {
			return refuse("A condition must demand something")
		}
	}
	return nil
}

var projectNumber = regexp.MustCompile(`^projects/[0-9]+$`)

func acceptPerimeter(c *Cloud, id string, v values) error {
	dry := flag(v, "useExplicitDryRunSpec")
	switch {
	case !strings.HasPrefix(id, text(v, "parent")+"/servicePerimeters/"):
		return refuse("Service perimeter '%s' is not within '%s'", id, text(v, "parent"))
	case !has(v, "status") && !has(v, "spec"):
		return refuse("A service perimeter must have a status or a spec")
	case has(v, "spec") != dry:
		return refuse("A spec takes useExplicitDryRunSpec, and the other way round")
	}
	for _, part := range []string{"status", "spec"} {
		for _, r := range texts(v, part+".resources") {
			if !projectNumber.MatchString(r) {
				return refuse("'%s' is not a project by its number, projects/NUMBER", r)
			}
			for _, other := range c.all(typePerimeter) {
				if other.ID != id && slices.Contains(texts(other.Inputs, part+".resources"), r) {
					return refuse("'%s' is in the service perimeter '%s' already", r, other.ID)
				}
			}
		}
		for _, s := range texts(v, part+".restrictedServices") {
			if !strings.HasSuffix(s, ".googleapis.com") || s == "accesscontextmanager.googleapis.com" {
				return refuse("'%s' cannot be restricted", s)
			}
		}
		// Of what the network reaches, only what it is told to.
		const reachable = ".vpcAccessibleServices"
		if !flag(v, part+reachable+".enableRestriction") && len(list(v, part+reachable+".allowedServices")) > 0 {
			return refuse("Allowed services take enableRestriction")
		}
		for _, level := range texts(v, part+".accessLevels") {
			if err := c.needs(typeLevel, level); err != nil {
				return err
			}
		}
	}
	return nil
}

// off is Google's answer where an API is not switched on.
func (c *Cloud) off(api string) error {
	return &apiError{403, "accessNotConfigured", fmt.Sprintf("%s has not been used in project %s before or it is disabled", api, c.opts.Number)}
}

// shut is Google's answer to a caller outside of an enforced perimeter. The
// stand-in's caller fits every access level and every ingress rule, so it is
// shut out where there is neither.
func (c *Cloud) shut(api string) error {
	for _, p := range c.all(typePerimeter) {
		if slices.Contains(texts(p.Inputs, "status.restrictedServices"), api) &&
			slices.Contains(texts(p.Inputs, "status.resources"), "projects/"+c.opts.Number) &&
			len(list(p.Inputs, "status.accessLevels")) == 0 && len(list(p.Inputs, "status.ingressPolicies")) == 0 {
			return &apiError{403, "vpcServiceControls", "Request is prohibited by organization's policy"}
		}
	}
	return nil
}
