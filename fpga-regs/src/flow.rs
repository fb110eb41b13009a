//! Flow rules: which of the frames that arrive at a port a raw packet QP receives.

open_enum! {
    /// Kind of a flow rule; the numbers are those of `ibv_flow_attr_type`, up to SNIFFER.
    FlowKind: u8 {
        /// Frames whose fields match.
        NORMAL = 0,
        /// Every frame that no NORMAL rule keeps.
        ALL_DEFAULT = 1,
        /// Every multicast frame that no NORMAL rule keeps.
        MC_DEFAULT = 2,
        /// A copy of every frame, whatever other rules say.
        SNIFFER = 3,
        /// For the kernel of the machine: frames whose fields match and that no rule of
        /// another kind keeps, and a copy of ARP and multicast frames that others keep.
        /// A multicast frame that a rule for ports of TCP or UDP keeps is not copied. Of
        /// the KERNEL rules that match, those of the best priority get a copy each.
        KERNEL = 4,
    }
}

flag_set! {
    /// The VLAN tags of a frame.
    FrameTags: u8 {
        /// It has one.
        ANY = 0,
        /// It has a second one.
        SECOND = 1,
        /// The first is one of a service (0x88a8), not of a customer (0x8100).
        SERVICE = 2,
    }
}

layout! {
    /// A flow rule: CREATE_FLOW. A frame matches a NORMAL rule if each of its
    /// fields, under the rule's mask, is the rule's value under the same mask; a
    /// field that the frame does not have matches only a mask of zero. Kinds
    /// other than NORMAL and KERNEL have no values and masks. Of the NORMAL rules that
    /// match, those of the best priority get a copy each, and what does not trap
    /// goes on. Headers after at most two VLAN tags are looked at.
    FlowContext: 144 {
        /// Kind.
        kind set_kind with_kind (u8 @ 0 as FlowKind);
        /// Port, counted from 1.
        port set_port with_port (u8 @ 1);
        /// Priority, 0 is the best.
        precedence set_precedence with_precedence (u16 @ 2);
        /// The rule takes a copy: rules of worse priority are asked too.
        dont_trap set_dont_trap with_dont_trap (bool @ 4 bit 0);
        /// The rule keeps the frame, and gives it to nobody: RX_RULE_DROP counts
        /// what no rule of the same priority takes. Only NORMAL rules that trap.
        drop set_drop with_drop (bool @ 4 bit 1);
        /// Frames come with `mark` in their CQE.
        marked set_marked with_marked (bool @ 4 bit 2);
        /// The card counts the frames of the rule: QUERY_FLOW.
        counted set_counted with_counted (bool @ 4 bit 3);
        /// Of the frames with a tag it takes only those whose first one is of 802.1Q,
        /// and of a VLAN that its function takes at the port: SET_VLAN. Rules of any
        /// kind may have it.
        by_vlan set_by_vlan with_by_vlan (bool @ 4 bit 4);
        /// 4 or 6: only frames with this version of IP; 0: any, and the fields of
        /// IP and after it are not looked at.
        ip_version set_ip_version with_ip_version (u8 @ 5);
        /// The VLAN tags of the frame.
        tags set_tags with_tags (u8 @ 6 as FrameTags);
        /// Mask of `tags`.
        tags_mask set_tags_mask with_tags_mask (u8 @ 7 as FrameTags);
        /// What the rule marks frames with.
        mark set_mark with_mark (u32 @ 8);
        /// Destination address.
        dmac set_dmac with_dmac ([u8; 6] @ 16);
        /// Source address.
        smac set_smac with_smac ([u8; 6] @ 22);
        /// EtherType, after VLAN tags.
        ether_type set_ether_type with_ether_type (u16 @ 28);
        /// Tag control information of the first VLAN tag.
        vlan_tci set_vlan_tci with_vlan_tci (u16 @ 30);
        /// Source IP address; one of IPv4 is in the last four bytes.
        src_ip set_src_ip with_src_ip ([u8; 16] @ 32);
        /// Destination IP address, likewise.
        dst_ip set_dst_ip with_dst_ip ([u8; 16] @ 48);
        /// IPv6 flow label.
        flow_label set_flow_label with_flow_label (u32 @ 64);
        /// Source port of TCP or UDP.
        src_port set_src_port with_src_port (u16 @ 68);
        /// Destination port of TCP or UDP.
        dst_port set_dst_port with_dst_port (u16 @ 70);
        /// IPv4 protocol, or the header that follows IPv6 and its extensions.
        protocol set_protocol with_protocol (u8 @ 72);
        /// IPv4 TOS or IPv6 traffic class.
        traffic_class set_traffic_class with_traffic_class (u8 @ 73);
        /// IPv4 TTL or IPv6 hop limit.
        hop_limit set_hop_limit with_hop_limit (u8 @ 74);
        /// Mask of `dmac`.
        dmac_mask set_dmac_mask with_dmac_mask ([u8; 6] @ 80);
        /// Mask of `smac`.
        smac_mask set_smac_mask with_smac_mask ([u8; 6] @ 86);
        /// Mask of `ether_type`.
        ether_type_mask set_ether_type_mask with_ether_type_mask (u16 @ 92);
        /// Mask of `vlan_tci`.
        vlan_tci_mask set_vlan_tci_mask with_vlan_tci_mask (u16 @ 94);
        /// Mask of `src_ip`.
        src_ip_mask set_src_ip_mask with_src_ip_mask ([u8; 16] @ 96);
        /// Mask of `dst_ip`.
        dst_ip_mask set_dst_ip_mask with_dst_ip_mask ([u8; 16] @ 112);
        /// Mask of `flow_label`.
        flow_label_mask set_flow_label_mask with_flow_label_mask (u32 @ 128);
        /// Mask of `src_port`.
        src_port_mask set_src_port_mask with_src_port_mask (u16 @ 132);
        /// Mask of `dst_port`.
        dst_port_mask set_dst_port_mask with_dst_port_mask (u16 @ 134);
        /// Mask of `protocol`.
        protocol_mask set_protocol_mask with_protocol_mask (u8 @ 136);
        /// Mask of `traffic_class`.
        traffic_class_mask set_traffic_class_mask with_traffic_class_mask (u8 @ 137);
        /// Mask of `hop_limit`.
        hop_limit_mask set_hop_limit_mask with_hop_limit_mask (u8 @ 138);
    }
}

impl FlowContext {
    /// Asks for frames of a VLAN: with a tag of 802.1Q. One of 802.1ad, which no card strips, is none.
    #[must_use]
    pub const fn of_vlan(self, number: u16) -> FlowContext {
        self.with_vlan_tci(number)
            .with_vlan_tci_mask(0xfff)
            .with_tags(FrameTags::ANY)
            .with_tags_mask(FrameTags(FrameTags::ANY.0 | FrameTags::SERVICE.0))
    }
}
