// SPDX-License-Identifier: Apache-2.0
// The functions of mrc_ctl.h but for profiles: device, ports, EV events, requests to endpoints.
#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "verbs_shim/address.hpp"
#include "verbs_shim/libmrc/ctl_values.hpp"
#include "verbs_shim/libmrc/host_events.hpp"
#include "verbs_shim/libmrc/mrc_objects.hpp"
#include "verbs_shim/log.hpp"

namespace mrc_verbs {

mrc::Device& controlled(mrc_context* mrc) {
  return MrcObjects::all().at(&given(mrc, "the context")).owner.device();
}

std::unique_ptr<Controller> controller(mrc_context* mrc) {
  return controller_of(MrcObjects::all().at(&given(mrc, "the context")).owner.host());
}

namespace provided {

namespace {

/// The plane behind a port of MRC. Throws mrc::Error (EINVAL).
unsigned plane_of(const mrc::Device& device, unsigned port) {
  if (!has_port(device, port)) fail(EINVAL, no_port(device, port));
  return port - 1;
}

}  // namespace

int mrc_ctl_query_device(ibv_context* verbs, mrc_ctl_device_attr* out) noexcept {
  return minus_one_of("mrc_ctl_query_device", [&] {
    static const char* algorithms[] = {mrc::cc::to_string(mrc::cc::Algorithm::nscc),
                                       mrc::cc::to_string(mrc::cc::Algorithm::fixed), nullptr};
    const mrc::Device& device = Context::of(verbs).device();
    const mrc::ProfileLimits limits = controller_of(Context::of(verbs).host())->limits();
    *out = {};
    out->mrc_ctl_protocol_version = MRC_CTL_PROTOCOL_VERSION_1;
    out->ev.ev_max_fmt_profiles = limits.max_format_profiles;
    out->ev.ev_max_profiles = limits.max_ev_profiles;
    out->ev.ev_max_count = limits.max_evs;
    out->ev.ev_free_count = limits.free_evs;
    out->ev.ev_max_count_profile = limits.max_evs_per_profile;
    out->ev.ev_count_align = limits.ev_count_align;
    out->ev.ev_max_width = limits.formats.max_width;
    out->ev.ev_fmt_mode_mask = limits.formats.modes;
    out->ev.ev_mode_mask = MRC_CTL_EV_MODE_AUTO | MRC_CTL_EV_MODE_EXP | MRC_CTL_EV_MODE_GEN;
    out->cc.cc_max_profiles = limits.max_cc_profiles;
    out->cc.algorithms = algorithms;
    for (unsigned plane = 0; plane < device.plane_count(); ++plane)
      if (plane + 1 < 32) out->phy_port_mask |= 1u << (plane + 1);
    out->opt_attr = MRC_CTL_OPT_CAP_EV_PROFILE_MODIFY_ONLINE | MRC_CTL_OPT_CAP_EV_EVENT |
                    MRC_CTL_OPT_CAP_EV_EVENT_PRECISE_DROP_CNT | MRC_CTL_OPT_CAP_EP_OP_EV_PROBE;
  });
}

// ------------------------------------------------------------------------------------- ports

int mrc_ctl_query_port(mrc_context* mrc, std::uint8_t port, mrc_ctl_port_attr* out,
                       int mask) noexcept {
  return minus_one_of("mrc_ctl_query_port", [&] {
    const mrc::Device& device = controlled(mrc);
    const unsigned plane = plane_of(device, port);
    check_mask(mask, MRC_CTL_PORT_ADMIN_STATE, out);
    if (mask == 0) return;
    out->port_admin_state = device.plane_state(plane).enabled ? MRC_CTL_PORT_ADMIN_ENABLED
                                                              : MRC_CTL_PORT_ADMIN_DISABLED;
  });
}

int mrc_ctl_modify_port(mrc_context* mrc, std::uint8_t port, mrc_ctl_port_attr* wanted,
                        int mask) noexcept {
  return minus_one_of("mrc_ctl_modify_port", [&] {
    const unsigned plane = plane_of(controlled(mrc), port);
    check_mask(mask, MRC_CTL_PORT_ADMIN_STATE, wanted);
    if (mask == 0) return;
    if (wanted->port_admin_state != MRC_CTL_PORT_ADMIN_ENABLED &&
        wanted->port_admin_state != MRC_CTL_PORT_ADMIN_DISABLED)
      fail(EINVAL, "a port is enabled (1) or disabled (0)");
    controller(mrc)->set_plane_enabled(plane,
                                       wanted->port_admin_state == MRC_CTL_PORT_ADMIN_ENABLED);
  });
}

// --------------------------------------------------------------------------------- EV events

mrc_cq* mrc_ctl_create_ev_event_cq(mrc_context* mrc, int cqe, void* cq_context,
                                   mrc_comp_channel* channel, int comp_vector) noexcept {
  return pointer_or_errno("mrc_ctl_create_ev_event_cq", [&] {
    mrc::Device& device = controlled(mrc);
    if (cqe < 1) fail(EINVAL, "a queue has at least one entry");
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 1;  // of completions, of which none come
    wanted.cq_context = cq_context;
    wanted.comp_vector = static_cast<std::uint32_t>(comp_vector);
    if (channel != nullptr) wanted.channel = &known_in(*mrc, channel, "the channel");
    auto made = std::make_unique<mrc_cq>(*mrc, wanted);
    made->ev_events = device.create_ev_event_stream(static_cast<std::uint32_t>(cqe));
    if (controls_host(mrc->owner.host())) HostEvents::all().add(*made->ev_events, device);
    return MrcObjects::all().add(std::move(made), mrc);
  });
}

int mrc_ctl_poll_ev_event(mrc_cq* cq, int num_entries, mrc_ctl_ev_event* out) noexcept {
  if (const int no = unusable("mrc_ctl_poll_ev_event", cq); no != 0) return -no;
  if (!cq->ev_events || num_entries < 0 || (num_entries > 0 && out == nullptr))
    return -refuse(EINVAL, "mrc_ctl_poll_ev_event",
                   "no queue for EV events, no room, or a negative number");
  // Of programs for API 1.0.0, the array has shorter elements: without state.
  const std::size_t stride = cq->parent.api_version == MRC_API_VER(1, 0, 0)
                                 ? offsetof(mrc_ctl_ev_event, state)
                                 : sizeof(mrc_ctl_ev_event);
  auto* place = reinterpret_cast<unsigned char*>(out);
  std::array<mrc::EvEvent, 16> batch;
  int done = 0;
  while (done < num_entries) {
    const auto room = std::min(batch.size(), static_cast<std::size_t>(num_entries - done));
    const std::size_t got = cq->ev_events->poll({batch.data(), room});
    for (std::size_t i = 0; i < got; ++i, ++done, place += stride) {
      mrc_ctl_ev_event event{};
      event.profile_id = batch[i].profile.value_or(0);
      event.ev = to_ctl(batch[i].ev);
      event.drop_count = batch[i].drop_count;
      event.state = static_cast<mrc_ctl_ev_state>(batch[i].state);
      std::memcpy(place, &event, stride);
    }
    if (got < room) break;
  }
  return done;
}

// ------------------------------------------------------------------------ requests to endpoints

int mrc_ctl_ep_batch_send_wait(mrc_context* mrc, std::uint8_t req_tc, mrc_ctl_ep_op_type type,
                               mrc_ctl_ep_req* req, int num_req, std::uint32_t timeout_ns,
                               mrc_ctl_ep_rsp* rsp, int* num_rsp) noexcept {
  return minus_one_of("mrc_ctl_ep_batch_send_wait", [&] {
    given(num_rsp, "num_rsp") = 0;
    mrc::Device& device = controlled(mrc);
    if (type != MRC_CTL_EP_OP_EV_PROBE && type != MRC_CTL_EP_OP_PORT_STATUS_UPDATE)
      fail(EINVAL, "unknown operation " + std::to_string(static_cast<int>(type)));
    if (num_req < 0) fail(EINVAL, "a negative number of requests");
    if (num_req == 0) return;
    (void)given(req, "req");
    (void)given(rsp, "rsp");
    const auto count = static_cast<std::size_t>(num_req);
    std::vector<mrc::EndpointRequest> requests(count);
    for (std::size_t i = 0; i < count; ++i) {
      mrc::EndpointRequest& to = requests[i];
      to.id = req[i].req_id;
      to.source = address_of(req[i].sgid);
      to.destination = address_of(req[i].dgid);
      to.mode = static_cast<mrc::path::EvMode>(req[i].ev_fmt_mode);
      to.ev = from_ctl(req[i].req_ev);
      // Bit N is port N here, and plane N in packets.
      to.port_status = req[i].op.port_status_update.port_status >> 1;
    }
    const auto answers = device.request_endpoints(
        type == MRC_CTL_EP_OP_EV_PROBE ? mrc::EndpointOperation::ev_probe
                                       : mrc::EndpointOperation::port_status,
        requests, std::chrono::nanoseconds(timeout_ns),
        req_tc == 0 ? std::nullopt : std::optional<unsigned>(req_tc));
    for (std::size_t i = 0; i < answers.size(); ++i) {
      rsp[i] = {};
      rsp[i].req_id = answers[i].id;
      rsp[i].port = static_cast<std::uint8_t>(answers[i].plane + 1);
      rsp[i].rtt =
          static_cast<unsigned>(std::min<std::int64_t>(answers[i].rtt.count(), UINT32_MAX));
    }
    *num_rsp = static_cast<int>(answers.size());
    if (answers.size() < count)
      fail(ETIMEDOUT, std::to_string(answers.size()) + " of " + std::to_string(count) +
                          " responses came in time");
  });
}

}  // namespace provided

}  // namespace mrc_verbs
