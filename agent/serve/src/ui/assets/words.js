// What the counters of the programs mean, for a person who meets one.

/** Packets that got no further. */
export const REFUSED = {
  reject_no_backend: "There is no usable backend anywhere: the client was told at once.",
  reject_too_long: "The packet is longer than the link that it is to go over takes.",
  reject_expired: "The packet has come too far (TTL, hop limit).",
  reject_unknown_port: "The ClusterIP is a service's, but it has no such port or protocol.",
  drop_reject_rate: "As many were rejected lately as the agent allows (--reject-rate).",
  drop_no_backend: "The frontend has no usable backend here, others have.",
  drop_source_range: "The client is in none of the frontend's source ranges.",
  drop_conntrack_full: "The conntrack table took no new entry.",
  drop_no_port: "No source port is left for a connection to this backend.",
  drop_no_node_ip: "This node has no address that the connection could go on from.",
  drop_no_route: "This node has no route to where the packet is to go.",
  drop_rewrite: "The packet could not be rewritten.",
  drop_corrupt: "A slot or backend that the tables point at does not exist.",
  drop_martian: "No router takes on a packet from such a source.",
  drop_source_route: "The packet says itself which way it wants to go.",
  drop_free_address: "The address is in a range of ClusterIPs, and no service has it.",
  drop_loop: "The way leads back to where the packet came from.",
  drop_congestion: "The envelope met congestion, and its sender would heed no mark.",
  drop_checksum: "The checksum of the packet's IPv4 header is wrong.",
  pass_no_program: "The program for IPv6 packets is not there.",
  pass_other_station: "The frame is for another station.",
  pass_own: "An answer to a connection of this node's own, from a frontend's port.",
  pass_answer: "A SYN-ACK or reset to a frontend, of no connection that is known.",
  drop_answer: "A SYN-ACK or reset to a ClusterIP, of no connection that is known.",
  drop_client_share: "The conntrack table is short of room, and the client holds more of it than --max-client-share allows.",
  drop_gone: "A backend that is gone answered a SYN: the next one goes to another backend.",
  pass_forged_envelope: "The envelope came in where none from its source can.",
  socket_reject: "A process was told at once that nothing serves it.",
  socket_drop: "A process was told at once that it is not served here: traffic policy, source ranges.",
};

/** Packets that went on as they were, and what else is worth a look. */
export const PASSED = {
  pass_fragment: "A later fragment, whose first one was not translated or has not come.",
  pass_headers: "More IPv6 extension headers than are walked.",
  pass_truncated: "Shorter than its headers say.",
  conntrack_early_drop: "A connection was given up before its time, for a new one.",
  socket_forgotten: "A socket asked more frontends than it remembers.",
  bind_refused: "A process may not have the port of a service's NodePort.",
  through_stack: "Sent on by the stack: fragments, neighbours, options.",
  rerouted: "Left by the way of its frontend's address, not by that of its backend's.",
};
