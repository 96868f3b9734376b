// Draws the OpenAPI description. A signed-in reader may try calls: unsafe ones carry the form token of this page.
const place = document.getElementById("swagger-ui");

window.SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor(request) {
    if (!["GET", "HEAD", undefined].includes(request.method)) {
      request.headers["X-CSRFToken"] = place.dataset.csrf;
    }
    return request;
  },
  onComplete() {
    document.body.dataset.done = "1";
  },
});
