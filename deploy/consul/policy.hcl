# What Shunt's token may do: `consul acl policy create -name shunt -rules @policy.hcl`.
service_prefix "" {
  policy = "read"
}
node_prefix "" {
  policy = "read"
}
# Who the agent of this host is; without it, give --consul-node.
agent_prefix "" {
  policy = "read"
}
# Only for addresses from a range (vip_from_range).
key_prefix "shunt/" {
  policy = "write"
}

# Only for gateways that are offered to other datacenters (export).
service "shunt-gateway" {
  policy = "write"
}
